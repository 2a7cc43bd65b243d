def setup(self):
    self.a = 1
    self.depth = 4
    self.scale = 3
    self.b = 2
