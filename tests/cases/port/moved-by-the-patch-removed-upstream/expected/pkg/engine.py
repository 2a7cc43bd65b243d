class Engine:
    def start(self):
        self.a = 5
