"""Which kernel a card gets."""


def pick(card):
    if card.major == 10:
        return "fast"
    return "slow"


def limit(card):
    return 96 if card.small else 128


def name(card):
    return f"card-{card.major}{card.minor}"
