def setup(self):
    self.a = 1
    self.depth = 4
    self.b = 2
