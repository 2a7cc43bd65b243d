class Arguments:
    backend = "auto"
