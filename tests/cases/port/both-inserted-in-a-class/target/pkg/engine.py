class Engine:
    def start(self):
        return 1

    def pause(self):
        return 3
