def name(arch):
    if arch == 90:
        return "h"
    elif arch == 100:
        return "b"
    elif arch >= 103:
        return "u"
    else:
        return "?"
