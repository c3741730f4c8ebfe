"""What counts as motion: often, dear, and not for ever."""

from __future__ import annotations

from bodyd.stream.motion import DEAR, DEAR_ON_THIN, Motion
from bodyd.stream.regions import Rect

CELLS = (13, 20)
AREA = Rect(128, 128, 448, 384)


def moved(motion: Motion, times: int, cost: int, rect: Rect = AREA) -> float:
    for step in range(times):
        motion.note(0.05 * step, [rect], CELLS)
        motion.cost(0.05 * step, cost)
    return 0.05 * (times - 1)


def test_what_moves_often_and_is_dear_is_hot() -> None:
    """Ten frames of 20 KB in half a second: the cells that changed."""
    motion = Motion()
    assert motion.hot(moved(motion, 10, DEAR // 10), thin=False) == AREA


def test_cheap_or_rare_changes_are_not() -> None:
    """Nor is what is cheap as tiles, what changed only twice, or what is smaller than a cell or so."""
    for times, cost, rect in ((10, 100, AREA), (2, DEAR, AREA), (10, DEAR, Rect(0, 0, 60, 60))):
        motion = Motion()
        assert motion.hot(moved(motion, times, cost, rect), thin=False) is None


def test_places_that_change_in_turn_are_not() -> None:
    """Where no cell changes twice, nothing moves."""
    motion = Motion()
    for step in range(8):
        motion.note(0.05 * step, [Rect(128 * step, 0, 128 * step + 64, 64)], CELLS)
        motion.cost(0.05 * step, DEAR)
    assert motion.hot(0.35, thin=False) is None


def test_a_thin_link_makes_less_dear() -> None:
    """What tiles would take of a thin link is dear sooner; forgotten costs are not counted again."""
    motion = Motion()
    now = moved(motion, 4, DEAR_ON_THIN // 2)
    assert motion.hot(now, thin=False) is None
    assert motion.hot(now, thin=True) == AREA
    motion.forget_cost()
    motion.cost(now, 0)
    assert motion.hot(now, thin=True) is None


def test_it_rests_when_hardly_anything_has_changed_lately() -> None:
    """Half a second later nothing moves there."""
    motion = Motion()
    now = moved(motion, 10, DEAR)
    assert not motion.rests(now, AREA)
    assert motion.rests(now, Rect(640, 640, 704, 704))
    assert motion.rests(now + 0.6, AREA)
