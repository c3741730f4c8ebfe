"""What the shop sells. Some names are there to mislead a careless reader of the screen."""

from __future__ import annotations

import random
from dataclasses import dataclass

_NAMES = (
    "Coffee filters, 100",
    "Water filter jug",
    "Penguin mug",
    "Enamel kettle",
    "Wool blanket",
    "Show stand, oak",
    "Reading lamp",
    "Canvas tote",
    "Linen apron",
    "Bread knife",
    "Hide cleaner",
    "Walnut board",
    "Penguin print, A3",
    "Searchlight torch",
    "Copper scoop",
    "Glass carafe",
)
CATEGORIES = ("Kitchen", "Lighting", "Textiles", "Prints")
SHAPES = ("round", "square", "leaf", "arch")


@dataclass(frozen=True, slots=True)
class Product:
    name: str
    price: str
    category: str
    shape: str


def products(seed: int) -> tuple[Product, ...]:
    """Twelve products in the seed's order."""
    rng = random.Random(f"catalogue:{seed}")
    chosen = rng.sample(_NAMES, 12)
    return tuple(
        Product(
            name=name,
            price=f"{rng.randrange(4, 90)}.{rng.choice(('00', '50', '95'))}",
            category=rng.choice(CATEGORIES),
            shape=rng.choice(SHAPES),
        )
        for name in chosen
    )
