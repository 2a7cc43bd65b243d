"""Why an edit does not go: a code, one fact, and the nearest places that it could have meant.

P070 no such symbol or file, P071 a pattern fits another number of places than expected, P072 the edit would
change nothing, or again what it changed, P073 a file does not parse, before or after, P074 a name that the
edit brings in leads nowhere, P075 the place has a form the edit cannot change, P076 the place only passes
names on, P077 what is there is not what the edit expects to replace, P078 a file for ``files/`` is missing.
"""

from __future__ import annotations


class Miss(Exception):
    """One edit cannot be made; the patch is in conflict. Not shown to a user as it is."""

    def __init__(self, code: str, fact: str, nearest: tuple[str, ...] | list[str] = ()) -> None:
        super().__init__(fact)
        self.code = code
        self.fact = fact
        self.nearest = tuple(nearest)
        self.pattern = ""  # one that fits nowhere in its place

    def note(self) -> str:
        """The whole in one line."""
        tail = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        return f"{self.code}: {self.fact}{tail}"


class NotHere(Miss):
    """An edit of a file that an installed copy does not have; it is left out."""
