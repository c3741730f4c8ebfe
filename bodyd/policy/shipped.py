"""The packs that come with bodyd, read from its own files."""

from __future__ import annotations

from importlib.resources import files

from .packs import Pack, load

LANGUAGES = ("any", "en", "de", "da", "fr", "es")
""""any" has what needs no language: kinds of fields, addresses, brands, programs."""


def shipped(name: str) -> Pack:
    """The pack of one of LANGUAGES."""
    source = files(__package__).joinpath("languages", f"{name}.toml")
    return load(source.read_text(encoding="utf-8"), source.name)
