class Video:
    def encode(self, item):
        item = self.resize(item)
        item = self.pad(item)
        return self.tower(item.half())


class Image:
    def encode(self, item):
        item = self.resize(item)
        item = self.pad(item)
        return self.tower(item)
