def setup(self):
    self.a = 10
    self.b = 20
    self.c = 30
