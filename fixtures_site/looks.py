"""How the page looks, chosen by a seed: layout, colours, type sizes.

Pure: the same seed gives the same look for ever, so a failure can be shown again by its seed.
Every text colour is mixed until it is readable (WCAG 2.1 1.4.3), and no further: low contrast is
part of what a driver must cope with.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Rgb = tuple[int, int, int]

TEXT_CONTRAST = 4.6
FAINT_CONTRAST = 3.2
BORDER_CONTRAST = 1.35

_LIGHT_PAGES: tuple[Rgb, ...] = ((255, 255, 255), (250, 248, 243), (241, 244, 248), (246, 240, 248))
_DARK_PAGES: tuple[Rgb, ...] = ((24, 26, 31), (18, 32, 36), (36, 30, 38), (40, 42, 46))
_ACCENTS: tuple[Rgb, ...] = (
    (31, 95, 191),
    (0, 121, 107),
    (176, 58, 46),
    (123, 63, 160),
    (201, 116, 17),
    (86, 140, 42),
    (222, 184, 55),
    (70, 84, 104),
    (214, 92, 140),
    (120, 190, 220),
)

_LABELS: tuple[Literal["placeholder", "above", "beside"], ...] = (
    "placeholder",
    "placeholder",
    "above",
    "beside",
)


@dataclass(frozen=True, slots=True)
class Look:
    """One seed's choices. Colours are sRGB, sizes CSS pixels."""

    seed: int
    page: Rgb
    surface: Rgb
    text: Rgb
    faint: Rgb
    border: Rgb
    accent: Rgb
    on_accent: Rgb
    accent_text: Rgb
    field: Rgb
    placeholder_colour: Rgb
    base_size: int
    control_size: int
    radius: int
    button_style: Literal["solid", "outline", "soft"]
    button_weight: Literal[400, 700]
    button_icon: bool
    toolbar: Literal["header", "below"]
    align: Literal["start", "center", "end", "spread"]
    order: Literal["button-first", "search-first"]
    panel: Literal["left", "right", "top"]
    label: Literal["placeholder", "above", "beside"]
    placeholder: str
    search_icon: bool
    search_button: bool
    search_width: int
    columns: int
    shop: str

    @property
    def scheme(self) -> Literal["light", "dark"]:
        return "light" if luminance(self.page) > 0.4 else "dark"


def look(seed: int) -> Look:
    """The look of *seed*: deterministic."""
    rng = random.Random(f"look:{seed}")
    colours = _colours(rng)
    base = rng.choice((14, 15, 16, 17))
    control = rng.choice((14, 15, 16, 18, 20, 22, 24))
    label = rng.choice(_LABELS)
    prompts = ("Search", "Search products", "Search the shop", "Search by name")
    return Look(
        seed=seed,
        **colours,
        base_size=base,
        control_size=control,
        radius=rng.choice((0, 3, 6, 10, 40)),
        button_style=rng.choice(("solid", "solid", "outline", "soft")),
        button_weight=rng.choice((400, 400, 700)),
        button_icon=rng.random() < 0.4,
        toolbar="header" if control <= 18 and label != "above" and rng.random() < 0.4 else "below",
        align=rng.choice(("start", "center", "end", "spread")),
        order=rng.choice(("button-first", "search-first")),
        panel=rng.choice(("left", "right", "top")),
        label=label,
        placeholder=rng.choice(prompts) if label == "placeholder" else "",
        search_icon=rng.random() < 0.5,
        search_button=rng.random() < 0.35,
        search_width=rng.randrange(14 * control, 19 * control),
        columns=rng.choice((3, 4, 5)),
        shop=rng.choice(("Northlight Supply", "Fernway", "Harbour & Pine", "Ostrea Goods", "Low Tide Store")),
    )


def _colours(rng: random.Random) -> dict[str, Rgb]:
    dark = rng.random() < 0.45
    page = rng.choice(_DARK_PAGES if dark else _LIGHT_PAGES)
    ink: Rgb = (255, 255, 255) if dark else (0, 0, 0)
    surface = mix(page, ink if dark else (255, 255, 255), 0.07 if dark else 0.6)
    field = rng.choice((page, surface))
    accent = rng.choice(_ACCENTS)
    on_accent = max(((255, 255, 255), (20, 20, 24)), key=lambda c: contrast(c, accent))
    return {
        "page": page,
        "surface": surface,
        "text": readable(page, ink, TEXT_CONTRAST + rng.uniform(1.5, 8)),
        "faint": readable(surface, ink, TEXT_CONTRAST),
        "border": readable(surface, ink, BORDER_CONTRAST + rng.uniform(0, 1.2)),
        "accent": accent,
        "on_accent": readable(accent, on_accent, TEXT_CONTRAST),
        "accent_text": readable(page, ink, TEXT_CONTRAST, start=accent),
        "field": field,
        "placeholder_colour": readable(field, ink, FAINT_CONTRAST + rng.uniform(0, 1.5)),
    }


def mix(a: Rgb, b: Rgb, share: float) -> Rgb:
    """*a* with *share* (0-1) of *b*."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return (red, green, blue)


def luminance(colour: Rgb) -> float:
    """Relative luminance, 0-1 (WCAG 2.1)."""
    parts = [c / 255 for c in colour]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: Rgb, b: Rgb) -> float:
    """Contrast ratio, 1-21 (WCAG 2.1)."""
    bright, dim = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def readable(background: Rgb, ink: Rgb, ratio: float, *, start: Rgb | None = None) -> Rgb:
    """The colour nearest to *start* (the background itself by default), towards *ink*, of that contrast."""
    origin = background if start is None else start
    for step in range(101):
        colour = mix(origin, ink, step / 100)
        if contrast(colour, background) >= ratio:
            return colour
    return ink


def stylesheet(chosen: Look) -> str:
    """The custom properties that page.css is written in."""
    properties = {
        "page": css(chosen.page),
        "surface": css(chosen.surface),
        "text": css(chosen.text),
        "faint": css(chosen.faint),
        "border": css(chosen.border),
        "accent": css(chosen.accent),
        "on-accent": css(chosen.on_accent),
        "accent-text": css(chosen.accent_text),
        "soft": css(mix(chosen.page, chosen.accent, 0.16)),
        "soft-text": css(_soft_text(chosen)),
        "field": css(chosen.field),
        "placeholder": css(chosen.placeholder_colour),
        "base-size": f"{chosen.base_size}px",
        "control-size": f"{chosen.control_size}px",
        "radius": f"{chosen.radius}px",
        "button-weight": str(chosen.button_weight),
        "search-width": f"{chosen.search_width}px",
        "columns": str(chosen.columns),
        "scheme": chosen.scheme,
    }
    lines = "".join(f"  --{name}: {value};\n" for name, value in properties.items())
    return f":root {{\n{lines}}}\n"


def _soft_text(chosen: Look) -> Rgb:
    ink: Rgb = (255, 255, 255) if chosen.scheme == "dark" else (0, 0, 0)
    return readable(mix(chosen.page, chosen.accent, 0.16), ink, TEXT_CONTRAST, start=chosen.accent)


def css(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
