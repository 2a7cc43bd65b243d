def options(parser):
    parser.option(
        "--alpha",
        size=1,
    )
    parser.option(
        "--omega",
        size=9,
    )
    return parser
