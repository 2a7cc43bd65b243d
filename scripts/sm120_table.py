"""The verdict table of docs/sm120.md: what the tool says of each patch on each base.

    python scripts/sm120_table.py --wheels .cache/wheels --clone ../sglang            # prints it
    python scripts/sm120_table.py --wheels .cache/wheels --clone ../sglang --check    # exit 1 if it differs

A base that is not there (a wheel, or the commit without a clone) is named and left out of the comparison.
Without a clone, what the patches that are commits of the upstream come to is not known, and neither is it for
those on top.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from auditor.patching.model import GLYPHS, Status
from auditor.patching.planning.plan import plan
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.patchset import load_patchset
from auditor.profile import load_profile
from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo
from auditor.trees.wheel import WheelTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sm120.md"
PATCHSET = ROOT / "patchsets" / "sm120"
COMMIT = "735a256"


def written(page: str) -> dict[str, dict[str, str]]:
    """base -> patch -> glyph, as the page has it."""
    rows = [line for line in page.split("<!-- verdicts -->")[1].splitlines() if line.startswith("|")]
    cells = [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]
    bases = cells[0][1:]
    return {base: {row[0]: row[at] for row in cells[2:]} for at, base in enumerate(bases, 1)}


def verdicts(tree: SourceTree, clone: GitRepo | None) -> dict[str, Status]:
    """patch -> what becomes of it on a tree."""
    sources = Sources(tree, clones=[clone] if clone else [])
    found = plan(load_patchset(PATCHSET), tree, load_profile("sglang"), sources=sources, stop=False)
    return {entry.name: entry.outcome.status for entry in found.entries}


def differences(
    wanted: dict[str, str], found: dict[str, Status], *, whole: bool
) -> list[tuple[str, str, str]]:
    """(patch, written, found) where the tool says otherwise; without a clone ``not-tried`` says nothing."""
    out = []
    for name in sorted({*wanted, *found}):
        status = found.get(name)
        glyph = GLYPHS[status] if status else "nothing"
        if glyph != wanted.get(name) and (whole or status != "not-tried"):
            out.append((name, wanted.get(name, "nothing"), glyph))
    return out


def wheels(folder: Path) -> dict[str, Path]:
    """version -> wheel of a folder."""
    return {path.name.split("-")[1]: path for path in sorted(folder.glob("sglang-*.whl"))}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--clone", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    repo = GitRepo.find(args.clone) if args.clone else None
    table = written(PAGE.read_text())
    here = wheels(args.wheels)
    wrong = 0
    rows: dict[str, list[str]] = {}
    for base, wanted in table.items():
        if base == COMMIT and repo is not None:
            tree: SourceTree = CommitTree(repo, COMMIT)
        elif base in here:
            tree = WheelTree(here[base], distribution="sglang")
        else:
            print(f"{base}: not here, not compared", file=sys.stderr)
            continue
        found = verdicts(tree, repo)
        for name, status in found.items():
            rows.setdefault(name, []).append(GLYPHS[status])
        for name, said, glyph in differences(wanted, found, whole=repo is not None):
            wrong += 1
            print(f"{base}: {name} is {glyph}, docs/sm120.md says {said}", file=sys.stderr)
    if not args.check:
        for name, glyphs in rows.items():
            print(f"| {name} | {' | '.join(glyphs)} |")
    return 1 if wrong and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
