def resolve(self):
    if self.mode == "small":
        self.size = 1
        self.shared = False
    if self.mode == 'large':
        self.size = 9

    self.ready = True
