def prepare(self):
    self.check_device()

    self.check_pages()

    self.check_elastic()
