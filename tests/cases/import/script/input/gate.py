"""Open the gate."""
import re, sys
from pathlib import Path

ROOT = Path(sys.argv[1]) / "sglang" / "srt"
PAIRS = [
    ("card.major == 10", "card.major in (10, 12)"),
    ("64 if", "96 if"),
]


def once(path, old, new):
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit("moved")
    path.write_text(text.replace(old, new))


for old, new in PAIRS:
    once(ROOT / "layers/pick.py", old, new)
args = ROOT / "server_args.py"
args.write_text(re.sub("auto", "slow", args.read_text()))
