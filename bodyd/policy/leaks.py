"""Confidential things in a text: what is known by its form, and the owner's own values. Pure.

Forms are checked by their check digits, so that an order's number is rarely taken for a card's.
Sources: ISO/IEC 7812-1 (cards), ISO 13616 (IBAN), and the issuers' own rules for numbers of persons.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from .normal import readings, words
from .packs import Data, Value
from .pages import covers

_DIGITS = re.compile(r"(?<!\w)\d(?:[ .-]?\d){12,}(?!\w)")
_CARD = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7]|35)\d{14}|3[47]\d{13}|3[68]\d{12}|(?:50|5[6-8]|6\d)\d{14}(?:\d{3})?"
)
_IBAN = re.compile(r"(?<![A-Z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Z0-9])")
_LENGTHS = {
    country: int(length)
    for length, countries in (
        part.split(":")
        for part in (
            "15:NO 16:BE 18:DK,FI,FO,GL,NL 19:MK,SI 20:AT,BA,EE,LT,LU 21:CH,HR,LI,LV "
            "22:BG,BH,DE,GB,GE,IE,ME,RS 23:AE,GI,IL 24:AD,CZ,ES,MD,PK,RO,SA,SE,SK,TN,VG 25:PT 26:IS,TR "
            "27:FR,GR,IT,MC,SM 28:AL,AZ,CY,HU,LB,PL 29:BR,EG,PS,QA,UA 31:MT"
        ).split()
    )
    for country in countries.split(",")
}
_ID = re.compile(
    r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\d-])"  # US social security
    r"|(?<!\d)(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])\d\d-\d{4}(?!\d)"  # Danish CPR
)
_DNI = re.compile(r"(?<!\w)(\d{8})-?([A-Z])(?!\w)")  # Spanish
_NIR = re.compile(r"(?<!\d)([12](?: ?\d){12}) ?(\d\d)(?!\d)")  # French
_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<!\w)(?:sk-[\w-]{20,}|gh[pousr]_\w{36}|AKIA[0-9A-Z]{16}|xox[abpr]-[\w-]{10,})"
)


def leak(data: Iterable[Data], text: str, hosts: Iterable[str]) -> str | None:
    """What of an owner's is in *text* that goes to *hosts*, in words; None where nothing is."""
    plain = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    to = list(hosts)
    for part in data:
        for pattern in part.patterns:
            if _FORMS[pattern](plain):
                return _NAMES[pattern]
        for value in part.values:
            if not _may_go(value, to) and _holds(text, value.text):
                return value.name
    return None


def kept_file(data: Iterable[Data], names: Iterable[str]) -> str | None:
    """The first of *names* that is not to be given away: by its last part, whatever the case."""
    patterns = [pattern.casefold() for part in data for pattern in part.files]
    for name in names:
        last = re.split(r"[/\\]", name.strip().rstrip("/\\"))[-1].casefold()
        if any(fnmatchcase(last, pattern) for pattern in patterns):
            return name
    return None


def _may_go(value: Value, hosts: list[str]) -> bool:
    return bool(hosts) and all(any(covers(match, host) for match in value.origins) for host in hosts)


def _holds(text: str, value: str) -> bool:
    wanted = "".join(words(value))
    return any(wanted in "".join(reading) for reading in readings(text))


def _card(text: str) -> bool:
    return any(_luhn(run) for found in _DIGITS.finditer(text) for run in _runs(re.split(r"\D", found[0])))


def _runs(groups: list[str]) -> Iterator[str]:
    """Groups of digits put together: other numbers may stand before and after a card's."""
    for start in range(len(groups)):
        if start and len(groups[start]) < 3:  # of a list of small numbers too many would be a card's
            continue
        run = ""
        for group in groups[start : start + 19]:
            run += group
            yield run


def _luhn(digits: str) -> bool:
    doubled = (int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits)))
    return _CARD.fullmatch(digits) is not None and sum(d // 10 + d % 10 for d in doubled) % 10 == 0


def _iban(text: str) -> bool:
    found = (re.sub(r"[ -]", "", m[0]) for m in _IBAN.finditer(text.upper()))
    # Cut to its country's length: a word may follow it.
    return any(
        _mod97(iban[: _LENGTHS[iban[:2]]]) for iban in found if len(iban) >= _LENGTHS.get(iban[:2], 99)
    )


def _mod97(iban: str) -> bool:
    return int("".join(str(int(c, 36)) for c in iban[4:] + iban[:4])) % 97 == 1


def _id(text: str) -> bool:
    return (
        _ID.search(text) is not None
        or any("TRWAGMYFPDXBNJZSQVHLCKE"[int(m[1]) % 23] == m[2] for m in _DNI.finditer(text.upper()))
        or any(97 - int(m[1].replace(" ", "")) % 97 == int(m[2]) for m in _NIR.finditer(text))
    )


def _key(text: str) -> bool:
    return _KEY.search(text) is not None


_FORMS = {"card": _card, "iban": _iban, "id": _id, "key": _key}
_NAMES = {
    "card": "the number of a card",
    "iban": "the number of an account",
    "id": "the number of a person",
    "key": "a secret key",
}
