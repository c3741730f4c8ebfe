"""Small pictures with words in them, drawn for one test at a time."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from bodyd_adapters.scripted.ink import Gray
from bodyd_adapters.scripted.words import FONTS
from PIL import Image, ImageDraw, ImageFont


class Sheet:
    """A picture that words and boxes are put on."""

    def __init__(self, width: int = 640, height: int = 240, ground: str = "white") -> None:
        self.image = Image.new("RGB", (width, height), ground)
        self._draw = ImageDraw.Draw(self.image)

    def write(
        self, text: str, at: tuple[int, int], *, em: int = 16, fill: str = "black", bold: bool = False
    ) -> Sheet:
        font = ImageFont.truetype(str(FONTS / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")), em)
        self._draw.text(at, text, fill=fill, font=font)
        return self

    def box(
        self,
        bounds: tuple[int, int, int, int],
        *,
        outline: str = "gray",
        fill: str | None = None,
        radius: int = 0,
    ) -> Sheet:
        self._draw.rounded_rectangle(bounds, radius, fill=fill, outline=outline)
        return self

    @property
    def gray(self) -> Gray:
        return np.asarray(self.image.convert("L"), dtype=np.int16)

    @property
    def png(self) -> bytes:
        file = BytesIO()
        self.image.save(file, "PNG")
        return file.getvalue()
