def setup(self):
    self.a = 10
    self.b = 2
    self.c = 30
