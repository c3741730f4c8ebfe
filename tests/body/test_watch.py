"""`bodyd watch`, as it is run in a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from .world import World, bare_world, folder

WITHIN = 30


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with folder() as root, bare_world(root) as running:
        yield running


def watching(world: World, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bodyd", "--config", str(world.root / "bodyd.toml"), "watch", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_completes_the_recording(world: World, tmp_path: Path, number: signal.Signals):
    """Status 0, nothing on stderr, and every frame that was told is in the file."""
    film = tmp_path / "out.mp4"
    with watching(world, "--record", str(film)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("1 frames")
        process.send_signal(number)
        told, errors = process.communicate(timeout=WITHIN)
    assert (process.returncode, errors) == (0, "")
    with av.open(str(film)) as video:
        frames = sum(1 for _ in video.decode(video=0))
    assert frames >= 1 + told.count(" frames")


def test_a_file_that_can_not_be_written_is_named(world: World, tmp_path: Path):
    """In one line that says what to do."""
    with watching(world, "--record", str(tmp_path / "none" / "out.mp4")) as process:
        _, errors = process.communicate(timeout=WITHIN)
    assert process.returncode == 2
    assert errors == (
        f"bodyd: {tmp_path}/none/out.mp4: No such file or directory; name a file that can be written\n"
    )
