"""Hold the abstract run of a server's start against what SGLang itself settled on.

    python scripts/oracle/compare_startup.py tests/keys/oracle/server-args-0.5.23.json ROOT [--list] [--open]
                                             [MODEL ...]

ROOT is the folder that holds ``sglang/``: a checkout's ``python`` or an unpacked wheel. Needs the project's
environment. Prints how many observed values the run gives, leaves open and contradicts; ``--list`` names the
contradictions, ``--open`` the arguments left open and why. Exit code 1 if anything is contradicted.
"""

from __future__ import annotations

import collections
import gc
import json
import sys
from pathlib import Path
from typing import Any

from auditor.gates.reading import build_program
from auditor.profile import Profile, load_profile
from auditor.program.startup import Startup, run_startup
from auditor.program.values import EnumMember, Unknown, is_const


def start_of(files: dict[str, bytes], profile: Profile, model: str, packages: dict[str, str]) -> Startup:
    """The start of one model under the assumptions of the record: nothing set, pinned packages present."""
    given = {f"arg.{name}": value for name, value in (profile.start.given if profile.start else {}).items()}
    program = build_program(files, "", profile, {**given, **packages, "model": model}, True)
    return run_startup(program, model)


def possible(scalar: Any) -> list[Any] | None:
    """The values a scalar may have, or None where that is open."""
    options = scalar.options if isinstance(scalar, Unknown) else (scalar,)
    if options is None or not all(is_const(o) for o in options):
        return None
    return [o.value if isinstance(o, EnumMember) else o for o in options]


def main(record: str, root: str, *words: str) -> int:
    """Compare; returns the number of contradictions."""
    gc.disable()
    observed = json.loads(Path(record).read_text(encoding="utf-8"))
    base = Path(root)
    files = {str(p.relative_to(base)): p.read_bytes() for p in sorted(base.glob("sglang/**/*.py"))}
    profile = load_profile("sglang")
    assert profile.start is not None
    packages = {f"dep.{m}": "present" for p in profile.start.packages for m in p.modules}
    if "--bare" in words:
        packages = {}
    wanted = [w for w in words if not w.startswith("--")]
    agree = left_open = 0
    wrong: list[str] = []
    unsure: collections.Counter[str] = collections.Counter()
    why: dict[str, set[str]] = {}
    flags = collections.Counter[str]()
    for model, facts in observed["models"].items():
        if wanted and model not in wanted:
            continue
        start = start_of(files, profile, model.split(".")[0], packages)
        if not start.complete:
            print(f"{model}: not followed to the end")
        for at, target in enumerate(observed["targets"]):
            real_values = {**facts["same"], **facts["by_target"].get(target, {})}
            for key, real in real_values.items():
                kind, _, name = key.partition(".")
                if kind == "args" and name in start.arguments:
                    said = start.arguments[name].at(at)
                    options = possible(said)
                    if options is not None and real not in options:
                        wrong.append(f"{model} {target} {key}: {options} and not {real!r}")
                    elif options is not None and len(options) == 1:
                        agree += 1
                    else:
                        left_open += 1
                        unsure[name] += 1
                        if isinstance(said, Unknown):
                            why.setdefault(name, set()).update(said.reasons)
                elif kind == "env":
                    writes = [e for e in start.env if e.name == name and e.may >> at & 1]
                    texts = [possible(e.value.at(at)) for e in writes]
                    known = any(t is None or real in t for t in texts)
                    flags["told" if known else "not told"] += 1
                    if writes and not known:
                        wrong.append(f"{model} {target} {key}: {texts} and not {real!r}")
                elif kind == "user_value_kept" and isinstance(real, bool):
                    writes = [e for e in start.env if e.name == name and e.may >> at & 1]
                    if writes:
                        kept = all(e.guarded for e in writes)
                        flags["kept agrees" if kept == real else "kept differs"] += 1
                        if kept != real and kept:
                            wrong.append(f"{model} {target} {key}: guarded and not {real!r}")
                        elif kept != real:
                            unsure[key] += 1
            surely = {e.name for e in start.env if e.must >> at & 1 and e.name.startswith("SGLANG_")}
            if "raises" not in real_values:
                seen = {k.partition(".")[2] for k in real_values if k.startswith("env.")}
                extra = {
                    e.name
                    for e in start.env
                    if e.name in surely - seen and possible(e.value.at(at)) != [None] and e.must >> at & 1
                }
                flags["set surely, not seen"] += len(extra)
                for name in sorted(extra):
                    unsure[f"env {name} not seen"] += 1
    if "--list" in words:
        print("\n".join(wrong))
    if "--open" in words:
        for name, count in unsure.most_common():
            print(f"{count:5} {name}: {', '.join(sorted(why.get(name, ()))[:6])}")
    label = observed.get("label", Path(record).stem)
    told = f"{agree} agree, {left_open} open, {len(wrong)} contradicted"
    print(f"{label}: {told}; flags: {dict(sorted(flags.items()))}")
    return len(wrong)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(1 if main(*sys.argv[1:]) else 0)
