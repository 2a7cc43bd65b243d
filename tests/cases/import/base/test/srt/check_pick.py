from pick import pick

assert pick(None)
