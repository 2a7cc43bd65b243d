def zero(self):
    self.reset()
    self.sync()
    return self.value


def one(self):
    self.reset()
    self.sync()
    return self.value


def two(self):
    self.reset()
    return self.value
