def prepare(self):
    self.check_elastic()

    self.check_device()

    self.check_pages()

    self.check_overlap()
