"""One file: the base it was, theirs (the base with the patch) and ours, merged by the cheapest means that do.

Lines first, as git merges them. Where lines conflict, the Python statements around the conflict, one change
at a time; everything else stays the line merge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from auditor.patching.diffs.lines import split_lines
from auditor.patching.merge.beside import beside, well_formed
from auditor.patching.merge.changes import Change, Changes
from auditor.patching.merge.lines import Group, matching, meeting, merge, result
from auditor.patching.merge.statements import source_of
from auditor.patching.merge.tokens import Splice
from auditor.patching.merge.tree import LEFT_OUT, Settled, TreeMerge
from auditor.patching.port.check import compiles, doubled_definitions, lost_names, parses
from auditor.patching.port.count import unaccounted
from auditor.patching.port.hunks import Applied, find
from auditor.patching.port.pieces import FileMerge, Piece, spliced
from auditor.patching.port.scope import elsewhere, same_scope


def merge_file(base: bytes, applied: Applied, ours: bytes, *, path: str) -> FileMerge:
    """Carry ``applied`` (the patch on ``base``) to ``ours``."""
    done = _merge_file(base, applied, ours, path=path)
    if not done.conflicts and _glued(done.data, base, ours, b"".join(applied.lines)):
        return _all(done, "conflict", "a last line without an end would stand before another", ours)
    return done


def _glued(data: bytes, *versions: bytes) -> bool:
    """Whether a line that ends one of the versions without a line end was joined to what follows it."""
    known = {line for version in versions for line in split_lines(version)}
    ends = [v.rpartition(b"\n")[2] for v in versions if v and not v.endswith(b"\n")]
    return any(
        line.startswith(end) and line not in known and line.rstrip(b"\r\n") != end
        for end in ends
        for line in split_lines(data)
    )


def _merge_file(base: bytes, applied: Applied, ours: bytes, *, path: str) -> FileMerge:
    python = path.endswith((".py", ".pyi"))
    base_lines, our_lines, their_lines = split_lines(base), split_lines(ours), applied.lines
    theirs = b"".join(their_lines)
    groups = merge(
        base_lines, our_lines, their_lines, to_ours=matching(base_lines, our_lines), to_theirs=applied.common
    )
    groups = _in_effect(groups, base_lines, our_lines, applied)
    touched = [group for group in groups if group.kind != "ours"]
    clash = [group for group in touched if group.kind == "conflict"]
    by_line = None
    if not clash:
        pieces = [piece for group in touched for piece in _line_pieces(group, applied)]
        by_line = FileMerge(b"".join(result(groups, our_lines, their_lines)), pieces)
    if not python:
        return by_line or _beside(base_lines, our_lines, touched, applied, path)
    met = meeting(groups, base_lines, our_lines, their_lines)
    doubtful = [
        g
        for g in touched
        if g in clash
        or g in met
        or elsewhere(g, base_lines, our_lines, applied)
        or _doubled(g, base_lines, our_lines, their_lines)
    ]
    if by_line is not None and not doubtful:
        wrong = _broken(by_line.data, ours, theirs, parses)
        if not wrong:
            return by_line
        doubtful = touched
    done = _by_statement(base, theirs, ours, touched, doubtful, applied, base_lines, our_lines)
    if done is None:
        return by_line or _refused(ours, touched, applied)
    if done.conflicts:
        return done
    wrong = _broken(done.data, ours, theirs, compiles) or _unnamed(done.data, ours, theirs)
    return _all(done, "conflict", wrong, ours) if wrong else done


def _in_effect(
    groups: list[Group], base: Sequence[bytes], ours: Sequence[bytes], applied: Applied
) -> list[Group]:
    """The groups, with those that ours has already told as such, though a comparison slid past them.

    Ours has them if the lines that the patch adds stand together in it, some of them are none of the base's,
    and none of the lines that it removes is left.
    """
    asked = [g for g in groups if g.kind in ("theirs", "conflict") and g.theirs[0] < g.theirs[1]]
    new = set(ours) - set(base)
    if not asked or not any(line in new for g in asked for line in applied.lines[slice(*g.theirs)]):
        return groups
    kept_base: set[int] = set()
    kept_ours: set[int] = set()
    for i, j, n in matching(base, ours):
        kept_base.update(range(i, i + n))
        kept_ours.update(range(j, j + n))
    place = {i + k: j + k for i, j, n in matching(applied.lines, ours) for k in range(n)}

    def there(group: Group) -> bool:
        inside = [
            e
            for e in applied.edits
            if group.base[0] <= e.a0 and e.a1 <= group.base[1]
            and group.theirs[0] <= e.b0 and e.b1 <= group.theirs[1]
        ]  # fmt: skip
        for edit in inside:
            added = [k for k in range(edit.b0, edit.b1) if applied.lines[k].strip()]
            removed = [k for k in range(edit.a0, edit.a1) if base[k].strip()]
            if not added or any(k in kept_base for k in removed):
                return False
            at = [place.get(k, -1) for k in added]
            telling = [i for i in at if i >= 0 and ours[i] in new]
            if -1 in at or not telling or any(i in kept_ours for i in telling):
                return False
            if not same_scope(applied, added[0], ours, at[0]):
                return False
            between = set(range(at[0], at[-1] + 1)) - set(at)
            if any(ours[i].strip() for i in between):
                return False
        return bool(inside)

    return [Group("same", g.base, g.ours, g.theirs) if g in asked and there(g) else g for g in groups]


def _broken(data: bytes, ours: bytes, theirs: bytes, valid: Callable[[bytes], bool]) -> str:
    """Why a merged file is not one that either side would have written; "" if it can be."""
    if not valid(data) and valid(ours) and valid(theirs):
        return "what comes out is not valid Python"
    twice = doubled_definitions(data, ours, theirs)
    return f"`{twice[0]}` would be defined twice" if twice else ""


def _unnamed(data: bytes, ours: bytes, theirs: bytes) -> str:
    lost = lost_names(data, ours, theirs)
    return f"`{lost[0]}` is not defined here any more" if lost else ""


def _all(done: FileMerge, status: str, note: str, data: bytes) -> FileMerge:
    return FileMerge(data, [Piece(p.hunk, status, p.proof, note, p.symbol) for p in done.pieces])


def _refused(ours: bytes, touched: Sequence[Group], applied: Applied) -> FileMerge:
    pieces: list[Piece] = []
    for group in touched:
        if group.kind != "conflict":
            pieces += _line_pieces(group, applied)
            continue
        note = f"lines it changes were changed too, at line {group.ours[0] + 1}"
        pieces += [Piece(hunk, "conflict", "", note) for hunk in _hunks(group, applied)]
    return FileMerge(ours, pieces)


def _beside(
    base: Sequence[bytes], ours: Sequence[bytes], touched: Sequence[Group], applied: Applied, path: str
) -> FileMerge:
    """Lines that both sides changed beside each other, each other ones: done, for a person to look at."""
    whole = b"".join(ours)
    lines = beside(base, ours, applied.lines, to_theirs=applied.common)
    data = None if lines is None else b"".join(lines)
    if data is None or (well_formed(path, whole) and not well_formed(path, data)):
        return _refused(whole, touched, applied)
    pieces: list[Piece] = []
    for group in touched:
        if group.kind != "conflict":
            pieces += _line_pieces(group, applied)
            continue
        note = "ours changed the lines beside those that it changes"
        pieces += [Piece(hunk, "look", "lines beside each other", note) for hunk in _hunks(group, applied)]
    return FileMerge(data, pieces)


def _line_pieces(group: Group, applied: Applied) -> list[Piece]:
    same = group.kind == "same"
    word, proof = ("upstream", "same lines") if same else ("clean", "three-way merge")
    return [Piece(hunk, word, proof) for hunk in _hunks(group, applied)]


def _doubled(group: Group, base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes]) -> bool:
    """Whether ours has the lines that the patch adds already, somewhere: then lines alone do not decide."""
    if group.kind != "theirs":
        return False
    t0, t1 = group.theirs
    while t0 < t1 and not theirs[t0].strip():
        t0 += 1
    while t1 > t0 and not theirs[t1 - 1].strip():
        t1 -= 1
    new = theirs[t0:t1]
    if not new:
        return False
    if len(find(ours, new)) > len(find(base, new)):
        return True
    before, now = set(base), set(ours)
    long = [line for line in new if len(line.strip()) > 10 and line not in before]
    return len(long) > 2 and 3 * sum(line in now for line in long) >= len(long)


def _hunks(group: Group, applied: Applied) -> list[int]:
    """The hunks whose changes lie in a group."""
    lo, hi = group.base
    found = {
        owner
        for edit, owner in zip(applied.edits, applied.owner)
        if lo <= edit.a0 and edit.a1 <= hi and group.theirs[0] <= edit.b0 and edit.b1 <= group.theirs[1]
    }
    return sorted(found)


def _touches(change: Change, group: Group, applied: Applied) -> bool:
    """Whether a change to a statement is made of lines of this group."""
    for edit in applied.edits:
        if not (group.base[0] <= edit.a0 and edit.a1 <= group.base[1]):
            continue
        if not (group.theirs[0] <= edit.b0 and edit.b1 <= group.theirs[1]):
            continue
        if change.touches(edit):
            return True
    return False


def _by_statement(
    base: bytes,
    theirs: bytes,
    ours: bytes,
    groups: Sequence[Group],
    doubtful: Sequence[Group],
    applied: Applied,
    base_lines: Sequence[bytes],
    our_lines: Sequence[bytes],
) -> FileMerge | None:
    """The conflicting groups by statement, the others by line; None where a version does not parse."""
    try:
        sources = [source_of(each) for each in (base, theirs, ours)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    changes = Changes(sources[0], sources[1]).all
    covered = {id(g): [c for c in changes if _touches(c, g, applied)] for g in groups}
    tree = TreeMerge(sources[0], sources[2])
    chosen: list[Change] = []
    by_statement = list(doubtful)
    for group in groups:  # lines alone cannot tell that part of it is there already
        if group.kind == "theirs" and group not in by_statement:
            if any(c.kind == "gap" and c.added and tree.known(c) for c in covered[id(group)]):
                by_statement.append(group)
    at = 0
    while at < len(by_statement):  # closed under: a change that reaches into another group takes that too
        for change in covered[id(by_statement[at])]:
            if change in chosen:
                continue
            chosen.append(change)
            for other in groups:
                if other not in by_statement and change in covered[id(other)]:
                    by_statement.append(other)
        at += 1
    halves = {id(ghost): other for ghost, other in _ghosts(changes, covered) if other in chosen}
    chosen += [change for change in changes if id(change) in halves]
    offsets = [0]
    for line in our_lines:
        offsets.append(offsets[-1] + len(line))
    splices: list[Splice] = []
    pieces: list[Piece] = []
    for group in groups:
        if group in by_statement:
            if not covered[id(group)]:
                pieces += [_remark(h, group, base_lines, applied) for h in _hunks(group, applied)]
            continue
        pieces += _line_pieces(group, applied)
        if group.kind == "theirs":
            text = b"".join(applied.lines[group.theirs[0] : group.theirs[1]])
            splices.append(Splice(offsets[group.ours[0]], offsets[group.ours[1]], text))
    for change in sorted(chosen, key=lambda c: (c.base_lines, c.theirs_lines)):
        settled = tree.settle(change)
        half = halves.get(id(change), change)
        hunks = sorted({h for g in by_statement if half in covered[id(g)] for h in _hunks(g, applied)})
        pieces += [_piece(h, settled, change) for h in hunks]
        splices += settled.splices
    if any(piece.status == "conflict" for piece in pieces):
        return FileMerge(ours, pieces)
    data = spliced(ours, splices)
    if data is None:
        return FileMerge(
            ours, [Piece(p.hunk, "conflict", "", "two changes meet at one place") for p in pieces]
        )
    try:
        stray = unaccounted(sources[0], sources[1], sources[2], data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        stray = "what comes out does not parse"
    if stray:
        note = f"`{stray}` would come or go without the patch saying so"
        return FileMerge(ours, [Piece(p.hunk, "conflict", "", note, p.symbol) for p in pieces])
    return FileMerge(data, pieces)


def _remark(hunk: int, group: Group, base_lines: Sequence[bytes], applied: Applied) -> Piece:
    """A part of a hunk whose lines change no statement: blank ones, or comments, which are worth a look.

    A header between statements that stay is code: it moves them from one block to the next.
    """
    lines = applied.lines[group.theirs[0] : group.theirs[1]]
    changed: list[bytes] = []
    for edit in applied.edits:
        if group.base[0] <= edit.a0 and edit.a1 <= group.base[1]:
            changed += [*base_lines[edit.a0 : edit.a1], *applied.lines[edit.b0 : edit.b1]]
    if any(line.strip() and not line.strip().startswith(b"#") for line in changed):
        return Piece(
            hunk, "conflict", "", "it moves statements from one block to another, and ours changed them"
        )
    if any(line.strip() for line in lines):
        return Piece(hunk, "look", "no statement in it", "a comment of the patch was left out")
    return Piece(hunk, "clean", "no statement in it", LEFT_OUT)


def _ghosts(changes: Sequence[Change], covered: dict[int, list[Change]]) -> list[tuple[Change, Change]]:
    """Changes made of no changed line, each with the change that it is the other half of.

    A method that begins in the middle of another takes the rest of that one's statements along.
    """
    seen = {id(change) for each in covered.values() for change in each}
    out = []
    for ghost in changes:
        if id(ghost) in seen or ghost.kind != "gap":
            continue
        halves = {s.norm for s in ghost.removed + ghost.added}
        for other in changes:
            if id(other) in seen and other.kind == "gap":
                if any(s.norm in halves for t in other.added + other.removed for s in t.walk()):
                    out.append((ghost, other))
                    break
    return out


def _piece(hunk: int, settled: Settled, change: Change) -> Piece:
    if settled.conflict:
        homeless = change if settled.homeless is not None else None
        return Piece(hunk, "conflict", "", settled.conflict, settled.symbol, homeless)
    if settled.already and not settled.note:
        return Piece(hunk, "upstream", "same statements", settled.note, settled.symbol)
    if settled.guess:
        return Piece(hunk, "look", "statement merge", settled.guess, settled.symbol)
    return Piece(hunk, "clean", "statement merge", settled.note, settled.symbol)
