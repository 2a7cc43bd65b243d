def prepare(self):
    self.check_pages()

    self.check_elastic()
