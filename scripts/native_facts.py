"""Make ``queries/native/DISTRIBUTION-VERSION.json`` from the commit that a package of kernels was built from.

    python scripts/native_facts.py --repo PATH_TO_CLONE --commit REV --distribution NAME --version X > FILE

The version is checked against the one that the commit's own package states.
"""

from __future__ import annotations

import argparse
import re
import sys

from auditor.arch import load_targets
from auditor.gates.reading import build_program, source_files
from auditor.native.availability import availability
from auditor.native.sites.facts import dumped, facts_of, names_of
from auditor.native.sites.wrappers import Wrappers, wrapper_files, wrapper_program
from auditor.native.world import KernelOptions
from auditor.profile import load_profile
from auditor.trees.open import TreeSpec, open_tree

CUDA = ("12.9", "13.0")
MACHINES = ("x86_64", "aarch64")


def main() -> int:
    """Read the commit, write the file of facts."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("repo", "commit", "distribution", "version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--project", default="sglang")
    given = parser.parse_args()
    profile = load_profile(given.project)
    tree = open_tree(TreeSpec(path=given.repo, commit=given.commit), distribution=None, default_url=None)
    _root, kernels = wrapper_files(tree, profile.native_packages)
    stated = {
        found[1].decode()
        for path, data in kernels.items()
        if path.endswith("/version.py") and (found := re.search(rb"__version__\s*=\s*[\"']([^\"']+)", data))
    }
    if stated != {given.version}:
        print(f"the commit states {sorted(stated)}, not {given.version}", file=sys.stderr)
        return 2
    targets = tuple(load_targets())
    builds = {}
    for cuda in CUDA:
        for machine in MACHINES:
            options = KernelOptions(
                targets, {"cuda": cuda, "machine": machine}, profile.name, profile, declared=False
            )
            builds[f"{cuda} {machine}"] = [r for r in availability(tree, options).rows if r.kind == "op"]
    root, files, _problems = source_files(tree, profile)
    program = build_program(files, root, profile, {})
    package = wrapper_program(tree, profile, program, {})
    assert package is not None
    wanted = [row.name for row in next(iter(builds.values()))]
    names = names_of(package, Wrappers(package, wanted, program.full))
    commit = tree.info().commit or given.commit
    facts = facts_of(given.distribution, given.version, commit, builds, names)
    sys.stdout.buffer.write(dumped(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
