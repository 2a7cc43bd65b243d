def options(parser):
    parser.option(
        "--alpha",
        size=1,
    )
    parser.option(
        "--gamma",
        size=3,
    )
    parser.option(
        "--beta",
        size=2,
    )
    parser.option(
        "--omega",
        size=9,
    )
    return parser
