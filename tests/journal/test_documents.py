"""The gateway's store: documents by kind and key, items while something is made of them, images once."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bodyd.contract.ports import Document
from bodyd.journal.documents import GATEWAY_FILE, Documents, open_documents


class Wall:
    now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
async def store(tmp_path: Path, wall: Wall) -> AsyncIterator[Documents]:
    async with open_documents(tmp_path, now_ms=wall) as found:
        yield found


def item(key: str, *images: bytes) -> Document:
    return Document("item", key, {"name": key}, images=tuple(sha(image) for image in images))


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{GATEWAY_FILE}*"))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_what_is_put_is_there_again_after_a_restart(tmp_path: Path):
    """Documents come back as they were, unknown ones as None; a second put replaces."""
    async with open_documents(tmp_path, now_ms=lambda: 1) as store:
        await store.put([Document("response", "r1", {"text": "é", "n": [1, None]})])
        await store.put([Document("response", "r1", {"text": "ü"})])
    async with open_documents(tmp_path, now_ms=lambda: 2) as store:
        assert await store.get("response", "r1") == {"text": "ü"}
        assert await store.get("response", "r2") is None
        assert await store.get("other", "r1") is None


async def test_many_are_read_at_once(store: Documents):
    """More keys than one statement takes are all found."""
    names = [f"k{number}" for number in range(1200)]
    await store.put([Document("a", name, {"name": name}) for name in names])
    found = await store.get_all("a", [*names, "missing"])
    assert len(found) == 1200
    assert await store.keys("a") == names


async def test_an_image_is_kept_once_and_leaves_with_the_last_item(store: Documents, tmp_path: Path):
    """The same bytes under many items are one image; it goes when the last of them goes."""
    picture = bytes(range(256)) * 4096
    for number in range(30):
        key = f"i{number}"
        await store.put(
            [item(key, picture), Document("response", f"r{number}", {}, parts=(key,))],
            {sha(picture): picture},
        )
    size = on_disk(tmp_path)
    assert size < 6 * len(picture)
    assert await store.image_sizes([sha(picture), "0" * 64]) == {sha(picture): len(picture)}
    assert await store.images([sha(picture)]) == {sha(picture): picture}
    for number in range(30):
        assert await store.images([sha(picture)])
        assert await store.delete("response", f"r{number}")
    assert await store.images([sha(picture)]) == {}
    assert await store.keys("item") == []


async def test_an_item_stays_while_another_document_is_made_of_it(store: Documents):
    """A continuation keeps the items of a response that is deleted."""
    await store.put([item("i1"), Document("response", "r1", {}, parts=("i1",))])
    await store.put([item("i2"), Document("response", "r2", {}, parts=("i1", "i2"))])
    assert await store.delete("response", "r1")
    assert not await store.delete("response", "r1")
    assert set(await store.get_all("item", ["i1", "i2"])) == {"i1", "i2"}
    await store.put([Document("response", "r2", {}, parts=("i2",))])
    assert set(await store.get_all("item", ["i1", "i2"])) == {"i2"}


async def test_retention_removes_what_is_older(store: Documents, wall: Wall):
    """Only the named kinds, only from before the given time; their items go with them."""
    await store.put([item("i1"), Document("response", "old", {}, parts=("i1",)), Document("x", "old", {})])
    wall.now = 2000
    await store.put([Document("response", "new", {})])
    assert await store.remove_before(["response"], 2000) == 1
    assert await store.keys("response") == ["new"]
    assert await store.keys("item") == []
    assert await store.keys("x") == ["old"]
