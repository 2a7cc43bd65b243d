"""Whole words in text, without regular expressions: an alternation of many names is slow.

A word here is what stands between two ``\\b``: its first and last characters are letters, digits or ``_``.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_IDENTIFIERS = re.compile(r"\w+")


def has_word(text: str, word: str) -> bool:
    """Whether ``\\bword\\b`` occurs in the text."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (at and _inside(text[at - 1])) and not (end < len(text) and _inside(text[end])):
            return True
        at = text.find(word, at + 1)
    return False


def _inside(char: str) -> bool:
    return char == "_" or char.isalnum()


class Words:
    """A set of words to look for; ``anywhere`` are found inside longer words too."""

    __slots__ = ("words", "anywhere", "_plain", "_other")

    def __init__(self, words: Collection[str], anywhere: Collection[str] = ()) -> None:
        self.words = frozenset(words)
        self.anywhere = tuple(sorted(anywhere))
        self._plain = frozenset(w for w in self.words if w.replace("_", "a").isalnum())
        self._other = tuple(sorted(self.words - self._plain))

    def together_with(self, more: Collection[str]) -> Words:
        return Words(self.words | frozenset(more), self.anywhere)

    def search(self, text: str) -> bool:
        """Whether the text holds one of them."""
        for part in self.anywhere:
            if part in text:
                return True
        for word in self._other:
            if word in text and has_word(text, word):
                return True
        if len(self._plain) > 12:
            return not self._plain.isdisjoint(_IDENTIFIERS.findall(text))
        return any(word in text and has_word(text, word) for word in self._plain)


__all__ = ["Words", "has_word"]
