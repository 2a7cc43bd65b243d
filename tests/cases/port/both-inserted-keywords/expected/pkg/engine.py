def make():
    return Runner(
        model="m",
        size=1,
        depth=3,
        scale=2,
    )
