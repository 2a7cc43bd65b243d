class Engine:
    def start(self):
        self.a = 1
        if self.debug and self.level > 3:
            self.trace()
