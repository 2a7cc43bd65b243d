def name(arch):
    if arch == 90:
        return "h"
    elif arch == 100:
        return "b"
    else:
        return "?"
