class Engine:
    def start(self):
        return 1

    def pause(self):
        return 3

    def stop(self):
        return 2
