"""``python -m auditor`` is ``sglang-auditor``."""

import sys

from auditor.cli.main import umbrella

if __name__ == "__main__":
    sys.exit(umbrella())
