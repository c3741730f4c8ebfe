"""From fragments to words: each candidate is compared with the word as the font draws it.

Pure. The font is known (the site names it); size, weight, colours and place are not. A candidate's
own height gives its size, the word is drawn at that size, and the two are correlated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from .ink import Box, Gray

Picture = npt.NDArray[np.float32]

FONTS = Path("/usr/share/fonts/truetype/dejavu")
WEIGHTS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
ALIKE = 0.74  # correlation from which a candidate is the word
LETTER_ALIKE = 0.55  # the same for each letter of it
UNLIKE = 0.45  # correlation below which another size of the same word is not tried
ROWS = 16  # height that both are scaled to before they are compared
FAINTEST = 24  # brightness (0-255) between ink and background below which nothing is read
INKED = 0.35  # share of the full ink from which a pixel belongs to a letter
SMALLEST = 8  # pixels; height of a capital below which nothing is read
LONGEST = 6  # widest word, in heights of its first letter
LARGE = 17  # pixels; height of a capital from which a single clear column parts letters, not words
ASPECT_SLACK = 0.16  # hinting moves a word's width and height by up to a pixel or two


@dataclass(frozen=True, slots=True)
class Word:
    """`box` is tight around the ink; `em` the type size in pixels; `score` the correlation."""

    text: str
    box: Box
    em: float
    score: float


@dataclass(frozen=True, slots=True)
class _Shape:
    """A word's ink as the font draws it, in em."""

    width: float
    height: float

    @property
    def aspect(self) -> float:
        return self.width / self.height


def find(gray: Gray, fragments: Sequence[Box], texts: Sequence[str]) -> list[Word]:
    """Every place where one of *texts*, single words, stands.

    Args:
        fragments: Of the same picture, from left to right.
    """
    found = []
    for box in _spans(fragments):
        likely = [text for text in texts if _fits(text, box)]
        if likely and (ink := _ink(gray, box)) is not None:
            found += [word for text in likely if (word := _compare(text, *ink)) is not None]
    return _best(found)


def phrase(words: Sequence[Word], first: str, second: str) -> Iterator[tuple[Word, Word]]:
    """Pairs of words that stand side by side on one base line, a space apart."""
    for a in words:
        for b in words:
            if a.text == first and b.text == second:
                em = (a.em + b.em) / 2
                apart = (b.box.left - a.box.right) / em
                level = abs(a.box.bottom - b.box.bottom) <= 0.15 * em + 1
                if 0.15 <= apart <= 0.75 and level and abs(a.em - b.em) <= 0.2 * em + 1:
                    yield a, b


def _spans(fragments: Sequence[Box]) -> Iterator[Box]:
    """Runs of fragments that could be one word: clear on both sides, close together within.

    A run starts at a capital or at a letter with a stem; what is taller than any letter beside it, or
    out of its band, is of something else (a button's round corner, say) and is looked through.
    """
    table = np.array(fragments, dtype=np.int64).reshape(-1, 4)
    lefts = table[:, 0]
    for anchor in fragments:
        height = anchor.height
        if height < SMALLEST:
            continue
        first, last = np.searchsorted(lefts, (anchor.left - height, anchor.right + LONGEST * height))
        near = table[first:last]
        slack = 0.38 * height
        fits = (near[:, 1] >= anchor.top - slack) & (near[:, 3] <= anchor.bottom + slack)
        yield from _grow(anchor, [Box(*row) for row in near[fits].tolist()])


def _grow(anchor: Box, band: Sequence[Box]) -> Iterator[Box]:
    box = anchor
    apart = 2 if anchor.height >= LARGE else 1
    for piece in band:
        if piece < anchor and 0 <= anchor.left - piece.right < apart:
            return
    followers = [piece for piece in band if piece > anchor and piece.right > anchor.right]
    for piece in followers:
        gap = piece.left - box.right
        if gap >= apart:
            yield box
        if gap > 0.4 * anchor.height:
            return
        box = _union(box, piece)
    yield box


def _union(a: Box, b: Box) -> Box:
    return Box(min(a.left, b.left), min(a.top, b.top), max(a.right, b.right), max(a.bottom, b.bottom))


def _fits(text: str, box: Box) -> bool:
    """Whether *box*, which is up to a pixel wider than the ink on each side, has the word's proportions."""
    shape = min((_shape(text, weight) for weight in WEIGHTS), key=lambda s: s.aspect)
    widest = max(_shape(text, weight).aspect for weight in WEIGHTS)
    height, width = max(1, box.height - 2), box.width - 2
    return shape.aspect * 0.75 - 0.5 <= width / height <= widest * 1.25 + 0.5


def _ink(gray: Gray, box: Box) -> tuple[Picture, Box] | None:
    """How much of each pixel is ink, 0-1 whatever the colours, cut tight; None where nothing is readable."""
    part = gray[box.top : box.bottom, box.left : box.right]
    rim = np.concatenate((part[0], part[-1], part[:, 0], part[:, -1]))
    ink = np.abs(part - np.median(rim)).astype(np.float32)
    full = float(np.percentile(ink, 97))
    if full < FAINTEST:
        return None
    ink = np.minimum(ink / full, 1)
    rows = np.flatnonzero((ink > INKED).any(axis=1))
    columns = np.flatnonzero((ink > INKED).any(axis=0))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    left, right = int(columns[0]), int(columns[-1]) + 1
    tight = Box(box.left + left, box.top + top, box.left + right, box.top + bottom)
    return ink[top:bottom, left:right], tight


def _compare(text: str, ink: Picture, box: Box) -> Word | None:
    best = 0.0
    for form, weight in _forms(text):
        shape = _shape(form, weight)
        if abs(box.width / box.height / shape.aspect - 1) <= ASPECT_SLACK + 1.2 / box.height:
            size = (round(ROWS * shape.aspect), ROWS)
            seen = _scaled(ink, size)
            for em in _sizes(box, shape):
                drawn = _drawn(form, weight, em, size)
                alike = float(np.vdot(seen, drawn))
                if alike > max(best, ALIKE) and _spelt(seen, drawn, _letters(form, weight, size[0])):
                    best = alike
                if alike < UNLIKE:
                    break
    return Word(text, box, box.height / _shape(text, WEIGHTS[0]).height, best) if best else None


def _spelt(seen: Picture, drawn: Picture, letters: Sequence[slice]) -> bool:
    """Whether every single letter is like itself, give or take a column: `Penguin` is no `penguin`."""
    return all(
        max(
            _correlation(seen[:, letter.start + shift : letter.stop + shift], drawn[:, letter])
            for shift in (-1, 0, 1)
            if letter.start + shift >= 0 and letter.stop + shift <= seen.shape[1]
        )
        >= LETTER_ALIKE
        for letter in letters
    )


def _correlation(a: Picture, b: Picture) -> float:
    a, b = a - a.mean(), b - b.mean()
    norm = math.sqrt(float(np.vdot(a, a)) * float(np.vdot(b, b)))
    return float(np.vdot(a, b)) / norm if norm else 0.0


def _sizes(box: Box, shape: _Shape) -> tuple[int, ...]:
    """Type sizes that *box* can have come from, the likeliest first: hinting moves both measures."""
    by_width, by_height = round(box.width / shape.width), round(box.height / shape.height)
    near = (by_width, by_height, by_width + 1, by_width - 1, by_height + 1)
    return tuple(dict.fromkeys(max(em, 6) for em in near))


def _forms(text: str) -> Iterator[tuple[str, str]]:
    """What browsers draw for *text*: each weight, with the ligature and without."""
    for form in dict.fromkeys((text, text.replace("fi", "\ufb01"))):
        for weight in WEIGHTS:
            yield form, weight


def _best(words: Sequence[Word]) -> list[Word]:
    """Where readings overlap, the likeliest alone."""
    kept: list[Word] = []
    for word in sorted(words, key=lambda w: -w.score):
        if not any(word.box.contains(*other.box.centre) for other in kept):
            kept.append(word)
    return kept


def _scaled(ink: Picture, size: tuple[int, int]) -> Picture:
    """*ink* at *size* (width, height), shifted and scaled so that correlation is a plain product."""
    flat = _resampler(ink.shape[0], size[1]) @ ink @ _resampler(ink.shape[1], size[0]).T
    flat -= flat.sum() / flat.size
    norm = math.sqrt(float(np.vdot(flat, flat)))
    return np.asarray(flat / (norm or 1), dtype=np.float32)


@lru_cache(maxsize=1024)
def _resampler(source: int, target: int) -> Picture:
    """Weights (target, source) of a triangle filter, widened when it shrinks."""
    scale = max(source / target, 1.0)
    centres = (np.arange(target) + 0.5) * source / target
    distance = np.abs(np.arange(source) + 0.5 - centres[:, np.newaxis]) / scale
    weights = np.maximum(1 - distance, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


@lru_cache(maxsize=2048)
def _drawn(text: str, weight: str, em: int, size: tuple[int, int]) -> Picture:
    return _scaled(_render(text, weight, em), size)


@lru_cache(maxsize=64)
def _shape(text: str, weight: str) -> _Shape:
    height, width = _render(text, weight, 100).shape
    return _Shape(width=width / 100, height=height / 100)


@lru_cache(maxsize=256)
def _letters(text: str, weight: str, width: int) -> tuple[slice, ...]:
    """The columns of each letter of *text* drawn *width* columns wide."""
    font = ImageFont.truetype(str(FONTS / weight), 100)
    first = font.getbbox(text[0])[0]
    scale = width / _render(text, weight, 100).shape[1]
    ends = [round((font.getlength(text[:count]) - first) * scale) for count in range(len(text) + 1)]
    return tuple(slice(max(a, 0), min(b, width)) for a, b in pairwise(ends))


def _render(text: str, weight: str, em: int) -> Picture:
    font = ImageFont.truetype(str(FONTS / weight), em)
    left, top, right, bottom = font.getbbox(text)
    canvas = Image.new("L", (int(right - left) + 8, int(bottom - top) + 8))
    ImageDraw.Draw(canvas).text((4 - left, 4 - top), text, fill=255, font=font)
    ink: Picture = np.asarray(canvas, dtype=np.float32) / np.float32(255)
    rows = np.flatnonzero((ink > INKED).any(axis=1))
    columns = np.flatnonzero((ink > INKED).any(axis=0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
