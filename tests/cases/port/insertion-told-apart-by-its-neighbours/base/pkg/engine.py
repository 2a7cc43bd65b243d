def one(self):
    self.reset()
    return self.value


def two(self):
    self.reset()
    return self.value
