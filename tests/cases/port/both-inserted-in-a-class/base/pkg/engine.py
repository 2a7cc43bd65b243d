class Engine:
    def start(self):
        return 1
