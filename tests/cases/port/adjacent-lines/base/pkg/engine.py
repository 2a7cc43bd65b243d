def setup(self):
    self.a = 1
    self.b = 2
    self.c = 3
