"""Text as it is compared: what looks the same becomes the same. Pure.

A page chooses how its words are spelled, so none is compared as it comes: full-width and decorated letters,
letters of other scripts that look Latin, invisible characters, marks that turn the order of writing around,
spaced-out and punctuated words are undone, on both sides of a comparison. What two spellings of a language
stand for the same letter is its pack's affair (packs.py). Total: any string has readings, none raises.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

Words = tuple[str, ...]

_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")  # letters by category that show nothing
_BLANK = "\u2800"  # a Braille pattern without dots, a symbol by category
_DROPPED = frozenset(("Mn", "Me", "Cf", "Cs", "Cn"))
_SPACES = frozenset(("Zs", "Zl", "Zp", "Cc", "Co"))  # private use: the icons of a font
_OVERRIDE = re.compile("\u202e([^\u202c\u202d]*)")


def _pairs(theirs: str, ours: str) -> dict[int, str]:
    return {ord(a): b for a, b in zip(theirs, ours, strict=True)}


def _run(first: int, letters: str = "abcdefghijklmnopqrstuvwxyz") -> dict[int, str]:
    return {first + offset: letter for offset, letter in enumerate(letters)}


# Before case is folded: a capital often looks like another letter than its small form does.
_LOOKALIKES = {
    **_pairs("АВЕЅІЈКМНОРСТУХԜҮӀԚԌЬ", "abesljkmhopctyxwylqgb"),
    **_pairs("авеѕіјкмнорстухһԁԛԝѵӏьгпү", "abesljkmhopctyxhdqwvlbrny"),
    **_pairs("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹ", "abezhlkmnoptyxc"),
    **_pairs("αβγεηικνορςτυχωϲϳ", "abyenlkvopctuxwcj"),
    **_pairs("օսոհցզյՕՏՍԼ", "ounhgqjosul"),  # Armenian
    **_pairs("ᎪᏴᏟᎠᎬᎻᎥᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃᏀ", "abcdehljklmprstvwzg"),  # Cherokee
    **_pairs("ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ", "bpdtgkjczfnlsrvhwxyaelou"),  # Lisu
    **_pairs("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghljklmnoprstuvwyz"),  # small capitals
    **_pairs("ɐəɛɹʇʌʍʎɯɥɔ", "aeertvwymhc"),  # turned
    **_pairs("ɑɡɩıǀȷℓøłđħŧɓɗɩⱥƀ\u0275\u2223ⲟ", "aglllj" + "loldht" + "bdlabolo"),
    **{ord("æ"): "ae", ord("Æ"): "ae", ord("œ"): "oe", ord("Œ"): "oe", ord("Ø"): "o", ord("ð"): "d"},
    **_run(0x1F150), **_run(0x1F170), **_run(0x1F1E6),  # letters in black circles and boxes, and of flags
}  # fmt: skip
_WRITTEN = str.maketrans("0134578@$€|₱₦₵₮₩₭₳₿¥£", "oleastbaselpnctwkabyl")


def fold(text: str) -> str:
    """*text* in small Latin letters where it looks Latin, without marks, with single spaces. Idempotent."""
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split())
    before = None
    while text != before:
        before, text = text, _fold_once(text)
    return text


def _fold_once(text: str) -> str:
    shown = (_shown(c) for c in unicodedata.normalize("NFKD", text))
    return " ".join("".join(shown).translate(_LOOKALIKES).casefold().split())


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if category in _SPACES or character == _BLANK:
        return " "
    return "" if category in _DROPPED or character in _FILLERS else character


def in_order(text: str) -> str:
    """*text* as it is shown: what an override (U+202E) has written from the right is turned around."""
    return _OVERRIDE.sub(lambda run: run[1][::-1], text)


def number(word: str) -> bool:
    return word.isdigit()


def words(text: str) -> Words:
    """The words of a text: letters, numbers, and symbols such as emoji; punctuation parts them."""
    return tuple(_same(w) for w in _parts(fold(text)))


def split_names(text: str) -> str:
    """An identifier's words set apart: "btnBuyNow" is "btn Buy Now"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)


def readings(text: str) -> tuple[Words, ...]:
    """Every way in which a person may read *text*, each as words; () for what shows no word."""
    found = dict.fromkeys(
        reading for written in dict.fromkeys((text, in_order(text))) for reading in _read(fold(written))
    )
    return tuple(reading for reading in found if any(reading))


def all_readings(texts: Iterable[str]) -> list[Words]:
    return [reading for text in texts for reading in readings(text)]


def _read(folded: str) -> Iterator[Words]:
    plain = tuple(_same(w) for w in _parts(folded))
    yield plain
    yield tuple(_same(w) for w in _unspaced(folded))
    yield tuple(_same(w) for w in _parts(re.sub(r"(?<=\w)(?:[^\w\s]|_)(?=\w)", "", folded)))
    yield tuple(_same(w) for w in _parts(re.sub(r"\S+", _with_letters, folded)))
    yield ("".join(plain),)


def _with_letters(word: re.Match[str]) -> str:
    return word[0].translate(_WRITTEN) if any(map(str.isalpha, word[0])) else word[0]


def _parts(folded: str) -> Iterator[str]:
    for part in re.findall(r"[^\W\d_]+|\d+|[^\w\s]", folded):
        if part[0].isalnum() or unicodedata.category(part) == "So":
            yield part


def _unspaced(folded: str) -> list[str]:
    """Letters that stand alone, three or more in a row, put together."""
    joined = re.sub(r"(?<!\w)\w(?:[\W_]+\w(?!\w)){2,}", lambda run: re.sub(r"[\W_]", "", run[0]), folded)
    return list(_parts(joined))


def _same(word: str) -> str:
    """What is told apart by a second look only: i and l, rn and m, vv and w."""
    return word.replace("i", "l").replace("rn", "m").replace("vv", "w")
