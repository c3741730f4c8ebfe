"""Head and tail of a stream: exact counts, whole characters, bounded memory."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from bodyd.execution.bounds import Live, Stream, shares


def fed(data: bytes, limit: int, seed: int = 1) -> Stream:
    """*data* in pieces of random sizes."""
    stream, chance, at = Stream(limit), random.Random(seed), 0
    while at < len(data):
        size = chance.randrange(1, 50)
        stream.feed(data[at : at + size])
        at += size
    return stream


def test_what_fits_is_whole() -> None:
    """Nothing is cut, or said to be, within the limit: not one character before it, nor at it."""
    kept = fed("aé日😀".encode(), 4).cut(4)
    assert (kept.text, kept.omitted) == ("aé日😀", 0)


def test_head_and_tail_are_kept_and_the_rest_is_counted() -> None:
    """The first and the last part remain within the limit, and a line says how many bytes do not."""
    kept = fed(b"A" * 5000 + b"Z" * 5000, 200).cut(200)
    assert len(kept.text) <= 200
    assert kept.text.startswith("AAA")
    assert kept.text.endswith("ZZZ")
    assert f"[... {kept.omitted} bytes omitted ...]" in kept.text
    assert kept.omitted == 10000 - kept.text.count("A") - kept.text.count("Z")


def test_a_tiny_limit_leaves_the_line_out() -> None:
    """A limit without room for the line still keeps both ends, and counts."""
    kept = fed(b"abcdefgh", 4).cut(4)
    assert (kept.text, kept.omitted) == ("abgh", 4)
    assert fed(b"abcdefgh", 0).cut(0).omitted == 8


def test_bytes_that_are_no_text_stand_as_replacements() -> None:
    """Each stray byte is one U+FFFD, and counts as the byte that it was."""
    kept = fed(b"\xff\x00\xfe" * 1000, 100).cut(100)
    assert set(kept.text.replace("omitted", "")) >= {"�", "\0"}
    shown = kept.text.count("�") + kept.text.count("\0")
    assert kept.omitted == 3000 - shown


@given(
    st.lists(
        st.one_of(st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace")), st.binary(max_size=80))
    ),
    st.integers(0, 300),
    st.integers(0, 9),
)
def test_nothing_is_lost_uncounted(pieces: list[bytes], limit: int, seed: int) -> None:
    """Whatever comes in whatever pieces: never over the limit, and kept + omitted is the total."""
    data = b"".join(pieces)
    stream = fed(data, limit, seed)
    kept = stream.cut(limit)
    assert len(kept.text) <= limit
    whole = data.decode("utf-8", "surrogateescape")
    if len(whole) <= limit:
        assert kept.omitted == 0
    else:
        assert kept.omitted > 0
        note = f"\n[... {kept.omitted} bytes omitted ...]\n"
        first, _, last = kept.text.partition(note) if note in kept.text else ("", "", "")
        shown = [c if c < "\udc80" or c > "\udcff" else "�" for c in whole]
        assert "".join(shown[: len(first)]) == first
        assert "".join(shown[len(shown) - len(last) :]) == last


def test_memory_is_bounded() -> None:
    """A gigabyte leaves no more behind than a few times the limit."""
    stream, piece = Stream(1000), b"y\n" * 32768
    for _ in range(2000):
        stream.feed(piece)
    assert stream.total == 2000 * len(piece)
    assert len(stream._head) + len(stream._tail) <= 2 * 4 * 1001


def test_two_streams_share_a_limit() -> None:
    """Each gets half, or what the other leaves."""
    assert shares(1000, 1000, 100) == (50, 50)
    assert shares(1000, 10, 100) == (90, 10)
    assert shares(10, 1000, 100) == (10, 90)
    assert shares(10, 10, 100) == (90, 10)


def test_live_text_joins_split_sequences_and_ends_at_its_limit() -> None:
    """A character that comes in two reads is told once, whole; beyond the limit nothing is."""
    live = Live(3)
    assert live.feed("é".encode()[:1]) == ""
    assert live.feed("é".encode()[1:] + b"ab") == "éab"
    assert live.feed(b"more") == ""
    cut_off = Live(10)
    assert cut_off.feed("日".encode()[:2]) == ""
    assert cut_off.feed(b"", final=True) == "�"
