"""A few files along a line of history, as trees that a patch can be tried on, and where an answer turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from auditor.trees.base import TreeInfo
from auditor.trees.between import LogEntry
from auditor.trees.git import GitRepo, MissingObject
from auditor.trees.versions import files_of, steps

#: How many places are looked at, after the one that was found, to see whether the answer turned back.
_SAMPLES = 4


class FewFiles:
    """A tree of nothing but some files of a commit."""

    def __init__(self, repo: GitRepo, blobs: Mapping[str, str], label: str) -> None:
        self.repo = repo
        self.label = label
        self._blobs = dict(sorted(blobs.items()))

    def info(self) -> TreeInfo:
        return TreeInfo("commit", self.label, "")

    def blobs(self) -> Mapping[str, str]:
        return self._blobs

    def read(self, path: str) -> bytes:
        for _, data in self.read_many([path]):
            return data
        raise KeyError(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted = list(paths)
        try:
            yield from zip(wanted, self.repo.read_objects([self._blobs[p] for p in wanted]), strict=True)
        except MissingObject as missing:
            raise KeyError(str(missing)) from None

    def local_path(self, path: str) -> str | None:
        return None


class Line:
    """``paths``, and those that they were renamed to, on the first-parent line of ``tip`` (a full id).

    Place 0 is before the first commit that touched one of them, place n after the n-th. ``after`` as in
    :func:`steps`.
    """

    def __init__(self, repo: GitRepo, tip: str, paths: Iterable[str], after: str = "") -> None:
        self.repo = repo
        self.paths = list(dict.fromkeys(paths))
        found = steps(repo, tip, self.paths, after)
        for _ in range(3):  # a file may move more than once
            more = []
            for step in found[-200:]:
                for path, (_, after) in step.changes.items():
                    if not after and path in self.paths:
                        more += [
                            new
                            for kind, old, new in files_of(repo, step.entry.oid)
                            if kind == "R" and old == path
                        ]
            more = [path for path in dict.fromkeys(more) if path not in self.paths]
            if not more:
                break
            self.paths += more
            found = steps(repo, tip, self.paths, after)
        self.entries: list[LogEntry] = [step.entry for step in found]
        state: dict[str, str] = {}
        for step in reversed(found):
            for path, (before, _) in step.changes.items():
                state[path] = before
        self.states: list[dict[str, str]] = [{p: b for p, b in state.items() if b}]
        for step in found:
            now = dict(self.states[-1])
            for path, (_, after) in step.changes.items():
                if after:
                    now[path] = after
                else:
                    now.pop(path, None)
            self.states.append(now)

    def __len__(self) -> int:
        return len(self.states)

    def tree(self, place: int) -> FewFiles:
        """The files at one place."""
        return FewFiles(self.repo, self.states[place], self.at(place)[:12])

    def at(self, place: int) -> str:
        """The commit of a place, "" for place 0."""
        return self.entries[place - 1].oid if place else ""

    def last_with(self, path: str, blob: str) -> int | None:
        """The last place at which a file has the content with this id (or its beginning)."""
        if len(blob) < 7:
            return None
        for place in range(len(self.states) - 1, -1, -1):
            if self.states[place].get(path, "").startswith(blob):
                return place
        return None

    def last_like(self, blobs: Mapping[str, str]) -> int | None:
        """The last place at which these files are as in ``blobs`` (path -> id, "" for none).

        That none of them is there says something only at the end: before the first one came, too, none was.
        """
        if not any(blobs.values()):
            return None if self.states[-1].keys() & blobs.keys() else len(self.states) - 1
        for place in range(len(self.states) - 1, -1, -1):
            if all(self.states[place].get(path, "") == blob for path, blob in blobs.items()):
                return place
        return None

    def renamed(self, place: int, path: str) -> str:
        """Where the commit of ``place`` moved ``path`` to, "" if it did not."""
        for kind, old, new in files_of(self.repo, self.at(place)) if place else ():
            if kind == "R" and old == path:
                return new
        return ""


def turn(test: Callable[[int], bool], low: int, high: int) -> int | None:
    """The first place from which on ``test`` holds up to ``high``; None if it does not hold there, or held
    already at ``low``.

    Found by halving, so what goes back and forth between two places that are looked at is not seen; some
    places after the one that is found are looked at to lessen that.
    """
    known: dict[int, bool] = {}

    def ask(place: int) -> bool:
        if place not in known:
            known[place] = test(place)
        return known[place]

    if low >= high or not ask(high) or ask(low):
        return None
    while True:
        left, right = low, high
        while right - left > 1:
            middle = (left + right) // 2
            left, right = (left, middle) if ask(middle) else (middle, right)
        room = high - right
        samples = {right + 1} | {right + room * n // (_SAMPLES + 1) for n in range(1, _SAMPLES + 1)}
        back = [place for place in sorted(samples) if right < place < high and not ask(place)]
        if not back:
            return right
        low = back[-1]


def gallop(test: Callable[[int], bool], high: int) -> int | None:
    """A place before ``high`` at which ``test`` does not hold, looked for in growing steps; None if none."""
    step = 1
    while True:
        place = max(high - step, 0)
        if not test(place):
            return place
        if place == 0:
            return None
        step *= 2


def relevant(paths: Collection[str | None], more: Collection[str] = ()) -> list[str]:
    """Paths to follow, without those that are none."""
    return [path for path in dict.fromkeys([*paths, *more]) if path]
