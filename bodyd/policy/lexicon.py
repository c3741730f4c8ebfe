"""Phrases, and where they stand in a reading of a text. Pure.

Found by the first word, so that a page of many names costs no more than its words. Counterpart: normal.py
makes the words on both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .normal import Words, number, words

ANY_NUMBER = "#"


def phrase(written: str) -> Words:
    """A phrase of a pack as words; # in it stands for any number."""
    return tuple(w for part in written.split() for w in ((part,) if part == ANY_NUMBER else words(part)))


def spellings(written: str, letters: Mapping[str, str]) -> Iterator[Words]:
    """A phrase as its language writes it, and with *letters* that a keyboard lacks written out."""
    yield phrase(written)
    yield phrase(written.casefold().translate({ord(a): b for a, b in letters.items()}))


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Phrases by their first word; those of several words also as the one that they look like unspaced."""

    starts: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, phrases: Iterable[str], letters: Mapping[str, str]) -> Lexicon:
        found = [form for written in phrases for form in spellings(written, letters)]
        return cls._by_start([*found, *(("".join(form),) for form in found if ANY_NUMBER not in form)])

    @classmethod
    def merged(cls, lexicons: Iterable[Lexicon]) -> Lexicon:
        return cls._by_start(form for one in lexicons for forms in one.starts.values() for form in forms)

    @classmethod
    def _by_start(cls, forms: Iterable[Words]) -> Lexicon:
        starts: dict[str, dict[Words, None]] = {}
        for form in forms:
            starts.setdefault(form[0], {})[form] = None
        return cls({first: tuple(those) for first, those in starts.items()})

    def spans(self, reading: Words) -> Iterator[tuple[int, int]]:
        """Where phrases stand: index of the first word, and after the last."""
        for start, word in enumerate(reading):
            any_number = self.starts.get(ANY_NUMBER, ()) if number(word) else ()
            for form in (*self.starts.get(word, ()), *any_number):
                end = start + len(form)
                if len(reading) >= end and all(map(_means, form, reading[start:end])):
                    yield start, end

    def among(self, reading: Words, unless: Lexicon) -> bool:
        """Whether a phrase stands in it that is no part of one of *unless*, which lift it there alone."""
        lifted = list(unless.spans(reading))
        return any(not any(a <= start and end <= b for a, b in lifted) for start, end in self.spans(reading))

    def is_all(self, reading: Words, fillers: Collection[str]) -> bool:
        """Whether it is all that there is, but for numbers and *fillers*."""
        left = tuple(w for w in reading if not number(w) and w not in fillers)
        return bool(left) and left in self.starts.get(left[0], ())


NOTHING = Lexicon()


def _means(wanted: str, word: str) -> bool:
    return number(word) if wanted == ANY_NUMBER else wanted == word
