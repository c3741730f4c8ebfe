"""Confidential things in texts."""

from __future__ import annotations

import pytest

from bodyd.policy.leaks import kept_file, leak
from bodyd.policy.packs import Data, Value

FORMS = [Data(patterns=("card", "iban", "id", "key"))]
MINE = [
    Data(
        values=(Value(name="the address", text="1 Some Street", origins=("shop.example", "*.shop.example")),)
    )
]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("4111 1111 1111 1111", "the number of a card"),
        ("5555-5555.5555 4444", "the number of a card"),
        ("378282246310005", "the number of a card"),
        ("4111\u200b1111\u200b1111\u200b1111", "the number of a card"),
        ("4111 1111 1111 1112", None),
        ("9999 9999 9999 9995", None),
        ("de89 3704 0044 0532 0130 00 thanks", "the number of an account"),
        ("DK50 0040 0440 1162 43", "the number of an account"),
        ("DE89 3704 0044 0532 0130 01", None),
        ("XX89 3704 0044 0532 0130 00", None),
        ("DE89 3704 0044 05", None),
        ("219-09-9999", "the number of a person"),
        ("000-09-9999", None),
        ("010190-1234", "the number of a person"),
        ("450190-1234", None),
        ("12345678Z", "the number of a person"),
        ("12345678A", None),
        ("1 85 05 78 006 084 92", None),
        ("from 2026 to 4111 1111 1111 1111 123", "the number of a card"),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "the number of a card"),
        ("0 0 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", None),
        ("185057800608436", None),
        ("ghp_" + "a1" * 18, "a secret key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "a secret key"),
        ("ask-me", None),
        ("2026-12-01 04:58:22, order 10045", None),
    ],
)
def test_forms_are_known_by_their_check_digits(text, what):
    """A number with a wrong check digit, or of no issuer, is just a number."""
    assert leak(FORMS, text, ()) == what


def test_a_french_number_of_a_person_is_known_by_its_key():
    """97 less the rest of the thirteen digits by 97."""
    digits = 1850578006084
    assert leak(FORMS, f"1 8505780060 84 {97 - digits % 97:02}", ()) == "the number of a person"


def test_an_owners_value_goes_where_it_may():
    """To its origins, all of them and nothing else around; elsewhere it is found however it is spaced."""
    assert leak(MINE, "1 some street", ["shop.example"]) is None
    assert leak(MINE, "1 some street", ["pay.shop.example", "shop.example"]) is None
    assert leak(MINE, "to 1-SOME-STREET, please", ["evil.example"]) == "the address"
    assert leak(MINE, "1somestreet", ["shop.example", "evil.example"]) == "the address"
    assert leak(MINE, "1 some street", []) == "the address"
    assert leak(MINE, "2 some street", []) is None


def test_files_are_known_by_the_last_part_of_their_name():
    """Folders, case and the other slash don't matter."""
    data = [Data(files=("id_rsa*", "*passport*"))]
    assert kept_file(data, ["a.txt", "/home/user/.ssh/ID_RSA "]) == "/home/user/.ssh/ID_RSA "
    assert kept_file(data, ["C:\\me\\My Passport.pdf"]) is not None
    assert kept_file(data, ["/id_rsa/notes.txt"]) is None
    assert kept_file([], ["id_rsa"]) is None
