new = True
