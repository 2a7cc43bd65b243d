def resolve(self):
    if self.mode == "small":
        self.size = 1

    self.ready = True
