def make():
    return Runner(
        model="m",
        size=1,
    )
