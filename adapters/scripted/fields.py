"""From words to the box they stand in: the outline of a text field.

Pure. A field is a flat area with an outline on four sides, much wider than high. It is found from
inside, by rays: from its placeholder or its text, or from a label above it or to its left.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .ink import Box, Gray
from .words import Word

FLAT = 6  # brightness (0-255) by which pixels of one flat area may differ
FAR = -1


def field_of(gray: Gray, word: Word) -> Box | None:
    """The text field that *word* stands in, or that it is the label of."""
    return field_around(gray, word) or _field_below(gray, word) or _field_right(gray, word)


def field_around(gray: Gray, word: Word) -> Box | None:
    """The text field that *word* begins in."""
    box = enclosing(gray, word.box)
    if box is None or word.box.left - box.left > 3.2 * word.em:
        return None
    return box if _is_field(box, gray, word.em) else None


def _field_below(gray: Gray, word: Word) -> Box | None:
    x, y = round(word.box.left + 2.6 * word.em), word.box.bottom + 2
    return _field_at(gray, word, x, _edge(gray[y : y + round(1.3 * word.em), x : x + 1]), y, down=True)


def _field_right(gray: Gray, word: Word) -> Box | None:
    x, y = word.box.right + 2, word.box.centre[1]
    return _field_at(gray, word, x, _edge(gray[y : y + 1, x : x + round(2.5 * word.em)].T), y, down=False)


def _field_at(gray: Gray, word: Word, x: int, edge: int, y: int, *, down: bool) -> Box | None:
    """Step over the outline that a ray from a label hit after *edge* pixels, and look about inside."""
    if edge == FAR:
        return None
    inside = (x, y + edge + round(0.6 * word.em)) if down else (x + edge + round(2.6 * word.em), y)
    if not (2 <= inside[0] < gray.shape[1] - 2 and 2 <= inside[1] < gray.shape[0] - 2):
        return None
    box = enclosing(gray, Box(inside[0], inside[1], inside[0] + 1, inside[1] + 1))
    return box if box is not None and _is_field(box, gray, word.em) else None


def enclosing(gray: Gray, inner: Box) -> Box | None:
    """The outlined flat area around *inner*, without its outline; None where a side is open."""
    height, width = gray.shape
    x = inner.centre[0]
    above, below = inner.top - 2, inner.bottom + 1
    if inner.left <= 2 or above <= 0 or inner.right >= width - 2 or below >= height - 1:
        return None
    ground = int(gray[above, x])
    other = np.abs(gray - np.int16(ground)) > FLAT
    top = _last(other[:above, x]) + 1
    bottom = below + _first(other[below:, x])
    if top == 0 or bottom < below:
        return None
    margin = round(0.12 * (bottom - top))
    rows = range(top + margin, bottom - margin)
    clear = [row for row in rows if not inner.top - 1 <= row < inner.bottom + 1]
    if not clear:
        return None
    left = min(_last(other[row, : inner.left - 1]) for row in rows) + 1
    rights = [_first(other[row, x:]) for row in clear]
    if left == 0 or FAR in rights:
        return None
    return Box(left, top, x + max(rights), bottom)


def _is_field(box: Box, gray: Gray, em: float) -> bool:
    """Whether *box* has a field's proportions for type of *em* pixels, and its outline is whole."""
    if not (1.25 * em <= box.height <= 3.6 * em and 9 * em <= box.width <= 0.95 * gray.shape[1]):
        return False
    inset = box.height // 2
    columns = slice(box.left + inset, box.right - inset)
    ground = int(np.median(gray[box.top : box.bottom, columns]))
    outline = gray[[box.top - 1, box.bottom], columns]
    return bool((np.abs(outline - ground) > FLAT).mean(axis=1).min() > 0.9)


def _edge(ray: npt.NDArray[np.int16]) -> int:
    """Where a ray leaves the flat area that it starts in."""
    if not ray.size:
        return FAR
    return _first(np.abs(ray[:, 0] - ray[0, 0]) > FLAT)


def _first(marks: npt.NDArray[np.bool_]) -> int:
    return int(marks.argmax()) if marks.any() else FAR


def _last(marks: npt.NDArray[np.bool_]) -> int:
    return len(marks) - 1 - int(marks[::-1].argmax()) if marks.any() else FAR
