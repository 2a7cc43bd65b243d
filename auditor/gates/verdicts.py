"""What a gate means for a target, judged against a reference target."""

from __future__ import annotations

from auditor.gates.model import Arm, Tri

#: Families in which a minor revision that falls out of an exact test is worth a word.
SIBLING_MAJORS = (10, 12)


def exact_miss(truth: dict[str, Tri], majors: dict[str, int]) -> set[str]:
    """Targets whose sibling (same major) matches an exact test that they fall out of.

    A test is exact where it tells siblings apart without being a threshold: its truth, in the order of
    capabilities, is not monotone. The sibling on the side that most targets are on has fallen out.
    """
    names = list(truth)
    values = [truth[n] for n in names]
    known = [v for v in values if v != "unknown"]
    rising = known == sorted(known, key=lambda v: v == "true")
    falling = known == sorted(known, key=lambda v: v == "false")
    if rising or falling:
        return set()
    out: set[str] = set()
    for major in SIBLING_MAJORS:
        family = [n for n in names if majors[n] == major]
        yes = {n for n in family if truth[n] == "true"}
        no = {n for n in family if truth[n] == "false"}
        maybe = {n for n in family if truth[n] == "unknown"}
        if yes and no:
            out |= no if known.count("true") <= known.count("false") else yes
        elif no and maybe and len(family) > 1:
            # decided false for one, open for its sibling: the exact test names one of them
            matched = no if _singled_out(truth, no, majors) else maybe
            out |= set(family) - matched
    return out


def _singled_out(truth: dict[str, Tri], side: set[str], majors: dict[str, int]) -> bool:
    """Whether a decided side of a family differs from every newer or other open target around it."""
    others = [v for n, v in truth.items() if n not in side and majors[n] >= 9]
    return bool(others) and all(v != "false" for v in others)


def judge(
    target: str,
    reference: str,
    kind: str,
    truth: dict[str, Tri],
    reached: dict[str, Tri],
    same_reason: bool,
    arms: tuple[Arm, ...],
    majors: dict[str, int],
    missed: set[str],
) -> str:
    """The verdict of one gate for one target."""
    mine, theirs = truth[target], truth[reference]
    taken = [n for n in truth if truth[n] != "false" and reached[n] != "false"]
    if kind in ("if", "elif", "match", "assert") and not taken and any(v == "true" for v in truth.values()):
        # a point that no target comes to is for older GPUs or another vendor
        come = any(r != "false" for r in reached.values())
        return "dead-arm" if mine == "true" and come else "same"
    if reached[target] == "false":
        return "same"
    if target in missed:
        return "missed-variant"
    if mine == theirs:
        if mine != "unknown" or same_reason:
            return "same"
        return "undecided"
    if kind == "assert":
        return "blocked" if mine == "false" else "fallback"
    if mine == "unknown" and theirs == "true":
        return "undecided"
    if _blocks(arms, mine) and not _blocks(arms, theirs):
        return "blocked"
    family = {n for n in truth if majors[n] == majors[target]}
    if mine == "true" and {n for n in truth if truth[n] != "false"} <= family:
        return "workaround"
    if mine == "unknown" and {n for n in truth if truth[n] != "false"} <= family:
        return "workaround"
    return "fallback"


def _blocks(arms: tuple[Arm, ...], when: Tri) -> bool:
    """Whether the arm taken raises as its first act besides preparing the message."""
    for arm in arms:
        if arm.when == when:
            kinds = [e.kind for e in arm.effects if e.kind in ("raise", "call", "return", "set", "import")]
            return bool(kinds) and "raise" in kinds[:2] and "return" not in kinds[: kinds.index("raise")]
    return False
