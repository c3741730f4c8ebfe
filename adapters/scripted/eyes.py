"""What the scripted model sees: one screenshot in, the few things it cares about out.

Pure: pixels alone, no accessibility tree, no page. That the demo's targets are found here and nowhere
else is what makes it a proof of the whole path from the screen to a model and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from .fields import enclosing, field_of
from .ink import Box, Gray, fragments, without_carets
from .words import Word, find, phrase

MAX_PIXELS = 7680 * 4320
_WORDS = ("Show", "Hide", "filters", "Filters", "Search")


class Unreadable(ValueError):
    """Not a PNG that can be looked at."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was found, as rectangles of the image; None is not found.

    Attributes:
        show, hide: The words of the button that opens or closes the panel.
        heading: The open panel's heading.
        field: The search box, while its placeholder or its label can be seen: the one in the
            button's row, for a browser's address bar may ask to search, too.
        typed: Every box in which the word that was looked for stands.
    """

    show: Box | None
    hide: Box | None
    heading: Box | None
    field: Box | None
    typed: tuple[Box, ...]


def look(png: bytes, *, word: str) -> Sight:
    """Read one screenshot, watching for *word* in text boxes.

    Raises:
        Unreadable: not a PNG, or larger than any screen.
    """
    gray = _gray(png)
    clean = without_carets(gray)
    words = find(clean, fragments(clean), (*_WORDS, word))
    show, hide = _button(words, "Show"), _button(words, "Hide")
    if show and hide:  # one is a misreading of something else: the likelier stays
        show, hide = (show, None) if show[0] >= hide[0] else (None, hide)
    heading = max((w for w in words if w.text == "Filters"), key=lambda w: w.score, default=None)
    button = show or hide
    fields = [box for w in words if w.text == "Search" if (box := field_of(gray, w)) is not None]
    boxes = [box for w in words if w.text == word if (box := enclosing(gray, w.box)) is not None]
    return Sight(
        show=show[1] if show else None,
        hide=hide[1] if hide else None,
        heading=heading.box if heading else None,
        field=_beside(button[1], fields) if button else None,
        typed=tuple(boxes),
    )


def _button(words: Sequence[Word], verb: str) -> tuple[float, Box] | None:
    pairs = [(min(a.score, b.score), _around(a.box, b.box)) for a, b in phrase(words, verb, "filters")]
    return max(pairs, default=None)


def _beside(button: Box, fields: Sequence[Box]) -> Box | None:
    """The field nearest to the button's row, if it is near at all."""

    def away(box: Box) -> int:
        return abs(box.centre[1] - button.centre[1])

    near = [box for box in fields if away(box) <= 3 * button.height]
    return min(near, key=away, default=None)


def _around(a: Box, b: Box) -> Box:
    return Box(a.left, min(a.top, b.top), b.right, max(a.bottom, b.bottom))


def _gray(png: bytes) -> Gray:
    try:
        with Image.open(BytesIO(png), formats=("PNG",)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Unreadable(f"a PNG of {image.width}x{image.height} is no screenshot")
            return np.asarray(image.convert("L"), dtype=np.int16)
    except Unreadable:
        raise
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as exc:
        raise Unreadable("the screenshot is not a readable PNG") from exc
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise Unreadable("a PNG of that size is no screenshot") from exc
