"""Sending one admitted batch, input by input, and saying truthfully what became of each.

The permit is asked at the last synchronous point before each atom (in the display's sender); here
are the order of inputs, binding to what the driver saw, stated expectations, and the way out.
Counterparts: admission.py and verifier.py decide, door.py journals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from bodyd.contract import actions as a
from bodyd.contract.atoms import Atom, MoveTo, units
from bodyd.contract.elements import Element
from bodyd.contract.geometry import Point
from bodyd.contract.inventory import Window
from bodyd.contract.ports import AccessibilityPort, Permit
from bodyd.contract.receipts import (
    Delivery,
    Effect,
    InputReceipt,
    Outcome,
    Sent,
    input_receipt,
    not_attempted,
)
from bodyd.display.display import Display, Scene
from bodyd.display.input import SendReport
from bodyd.errors import AccessibilityUnavailable, BodydError, DisplayUnavailable, StaleScreenshot

from . import verifier, witness
from .admission import (
    Reach,
    Sight,
    check_element,
    check_focus,
    check_free,
    check_keyboard,
    check_pointer,
    check_uncovered,
    element_of,
    for_manager,
    pointer_target,
)

SLICE_SECONDS = 0.05
RELEASE_SECONDS = 1.0
FOCUS_SECONDS, FOCUS_LOOK_SECONDS = 0.3, 0.01
EXPECT_LOOK_SECONDS = 0.5
"""So long a look at what is expected may take beyond its deadline: one look there always is."""


@dataclass(slots=True)
class Batch:
    """One admitted request on its way.

    `interrupted` is set when the permit dies or the requester goes away; `untouched` says that nothing was
    sent since the screenshot was taken; `scene` is the latest look
    at the windows, `target` what the input in hand is aimed at. `note` and `reached` record progress,
    so that a restart after a crash can say how far it came: (input index, units acknowledged), with
    the next atom perhaps on its way or not.
    """

    request: a.InputRequest
    atoms: tuple[tuple[Atom, ...], ...]
    sight: Sight | None
    permit: Permit
    interrupted: trio.Event
    scene: Scene
    same_pixels: Callable[[Display, Sight, Point], Awaitable[bool]]
    restless: frozenset[int] = frozenset()
    untouched: bool = False
    reach: Reach = field(default_factory=Reach)
    target: Window | None = None
    accessibility: AccessibilityPort | None = None
    acted_on: Element | None = None  # the target of the last input, as it was before that
    note: Callable[[int, int], None] = lambda index, count: None
    reached: Callable[[int, int], None] = lambda index, count: None
    receipts: list[InputReceipt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What the sending of a batch came to; `last` is the input that later changes are evidence for."""

    inputs: tuple[InputReceipt, ...]
    last: int | None


async def check_binding(
    batch: Batch, display: Display, index: int, *, pixels: bool = True, top: int | None = None
) -> None:
    """Whether input *index* still means what the driver saw; notes what it is aimed at.

    Args:
        pixels: False where they have been compared a moment ago.
        top: What the server would give it to, where that was asked together with the batch's scene.
    Raises:
        StaleScreenshot: it would reach something else; nothing of it was sent.
        AccessibilityUnavailable: it is aimed at an element, and its app does not say what is there.
    """
    sight, action, before = batch.sight, batch.request.inputs[index], batch.target
    batch.target = _target(batch, index)
    if sight is None or batch.request.binding == "none":
        return
    if batch.untouched and not batch.receipts:
        check_free(sight, batch.scene.grabbed, index=index)
    if isinstance(action, a.KEYBOARD_TYPES):
        await _focus_settled(batch, display, before)
        batch.target = _target(batch, index)
    if isinstance(action, (*a.KEYBOARD_TYPES, a.Scroll)):
        _check_keys(batch, sight, index)
    if isinstance(action, a.ClickElement):
        await _check_element(batch, action, sight, index)
        top = None  # that took a while
    if isinstance(action, a.POINTER_TYPES):
        await _check_place(batch, display, sight, index, pixels=pixels, top=top)


def place_bound(request: a.InputRequest, sight: Sight | None, atoms: tuple[Atom, ...]) -> Point | None:
    """Where the first input is aimed at, if what is on top there is asked right before it is sent."""
    bound = sight is not None and request.binding != "none"
    return _point(atoms) if bound and isinstance(request.inputs[0], a.POINTER_TYPES) else None


def _check_keys(batch: Batch, sight: Sight, index: int) -> None:
    scene = batch.scene
    active = _active(scene)
    if sight.focus_changed and not batch.reach.acted:
        raise StaleScreenshot(
            f"inputs[{index}]: another window became active while the screenshot was taken; "
            "take a fresh screenshot and look again; nothing was sent",
            param=f"inputs[{index}]",
        )
    focusable = batch.reach.focusable(scene.clients)
    check_keyboard(sight.shot.active_window, active, index=index, moved_to=focusable)
    if isinstance(batch.request.inputs[index], a.KEYBOARD_TYPES):
        acted = batch.reach.acted
        check_focus(sight, active, scene.focus, index=index, clients=scene.clients, acted=acted)


async def _check_element(batch: Batch, action: a.ClickElement, sight: Sight, index: int) -> None:
    """By the app's word; where its window is and what is on top there is asked of the X server after that."""
    if batch.accessibility is None:
        raise AccessibilityUnavailable("accessibility is off; nothing was sent")
    now = await batch.accessibility.at(_point(batch.atoms[index]))
    check_element(element_of(action, sight, index=index), now, index=index)


async def _check_place(
    batch: Batch, display: Display, sight: Sight, index: int, *, pixels: bool, top: int | None
) -> None:
    """The pixels first, since they take longest; what is on top there last, right before it is sent."""
    point = _point(batch.atoms[index])
    if pixels and batch.request.binding == "pixels":
        if not await batch.same_pixels(display, sight, point):
            raise StaleScreenshot(
                f"inputs[{index}]: the picture at that point has changed; "
                "take a fresh screenshot and look again; nothing was sent",
                param=f"inputs[{index}]",
            )
        top = None  # that took a while
    if top is None:
        batch.scene, top = await display.scene_at(point)
    batch.target = _target(batch, index)
    opened = batch.reach.opened(sight, batch.scene.clients)
    check_pointer(sight, batch.target, point, index=index, opened=opened)
    check_uncovered(batch.target, top, index=index)


def _target(batch: Batch, index: int) -> Window | None:
    """The window that input *index* goes to as things are."""
    action, scene = batch.request.inputs[index], batch.scene
    if isinstance(action, a.POINTER_TYPES):
        point = _point(batch.atoms[index])
        return pointer_target(scene.popups, point) or pointer_target(scene.windows, point)
    if isinstance(action, a.KEYBOARD_TYPES):
        return _active(scene)
    return None


def _active(scene: Scene) -> Window | None:
    return next((w for w in scene.windows if w.active), None)


def _point(atoms: tuple[Atom, ...]) -> Point:
    """Where a pointer input begins: that decides what is dragged; the others have one point."""
    stop = next(atom for atom in atoms if isinstance(atom, MoveTo))
    return Point(x=stop.x, y=stop.y)


async def _focus_settled(batch: Batch, display: Display, before: Window | None) -> None:
    """Give the window manager a moment to say that the window that was pressed has the focus, and to agree
    with the server on who has it."""
    pressed = before.id if before is not None and before.id in batch.reach.pressed else None

    def settled(scene: Scene) -> bool:
        active = _active(scene)
        agreed = active is None or scene.clients.get(active.id) == scene.focus
        return agreed and pressed not in {w.id for w in scene.windows if not w.active}

    with trio.move_on_after(FOCUS_SECONDS):
        while not settled(batch.scene):
            await trio.sleep(FOCUS_LOOK_SECONDS)
            batch.scene = await look(display, batch.scene)


async def dispatch(batch: Batch, display: Display) -> Dispatched:
    """Send every input in order until one is not confirmed; the rest are `not_attempted`.

    Returns with every key and button up, as far as that can be had; what could not be proved is in
    the receipts, and the lease's quiescence proof finds what is still held.
    """
    last: int | None = None
    try:
        for index, action in enumerate(batch.request.inputs):
            if index > 0 or batch.untouched or not _looked_at_again(batch):
                after = await look(display, batch.scene)
            else:
                after = batch.scene
            await bear_witness(batch, last)
            _credit(batch, last, after)
            batch.scene = after
            receipt = await _one(batch, display, index)
            batch.receipts.append(receipt)
            if not isinstance(action, a.Wait | a.TakeScreenshot):
                last = index
            if receipt.delivery.outcome is not Outcome.CONFIRMED or _unmet(receipt):
                break
    finally:
        with trio.move_on_after(RELEASE_SECONDS, shield=True):
            await _let_go(batch, display)
    for index in range(len(batch.receipts), len(batch.request.inputs)):
        action = batch.request.inputs[index]
        batch.receipts.append(not_attempted(index, action.type, units(action)))
    return Dispatched(tuple(batch.receipts), last)


def _looked_at_again(batch: Batch) -> bool:
    """Whether nothing but the check of the first input's place uses the scene, and brings a new one."""
    scrolls = isinstance(batch.request.inputs[0], a.Scroll)  # which goes by the active window, too
    return not scrolls and place_bound(batch.request, batch.sight, batch.atoms[0]) is not None


async def _one(batch: Batch, display: Display, index: int) -> InputReceipt:
    action = batch.request.inputs[index]
    of = units(action)
    if not batch.permit.valid:
        return not_attempted(index, action.type, of, "interrupted")
    expect = _expect(action)
    try:
        batch.acted_on = await _target_before(batch, index, expect)
        await check_binding(
            batch, display, index, pixels=index > 0
        )  # the first once more: a write lay between
        before = await display.pixels(expect.bounds) if expect and expect.bounds else None
    except BodydError as exc:  # whatever kept it from being checked, nothing of it was sent
        reason = "display_lost" if isinstance(exc, DisplayUnavailable) else exc.code
        return not_attempted(index, action.type, of, reason)
    batch.note(index, 0)  # from here on its first atom may be on its way
    try:
        report = await _send(batch, display, index)
    except DisplayUnavailable:
        return _lost(index, action, of)
    delivery = delivered(report, of)
    if delivery.outcome is Outcome.CONFIRMED:
        batch.reached(index + 1, 0)
        client = batch.scene.clients.get(batch.target.id) if batch.target else None
        batch.reach = batch.reach.aimed(action, batch.target, client)
    elif report.certain:
        batch.reached(index, report.sent)
    if delivery.outcome is not Outcome.CONFIRMED:
        return input_receipt(index, action.type, delivery, _undelivered(delivery))
    if expect is None:
        effect = verifier.effect(action, pointer_read_back=report.readback_ok)
    else:
        effect = verifier.stated(await _expectation(batch, display, expect, before))
    return input_receipt(index, action.type, delivery, effect)


async def _target_before(batch: Batch, index: int, expect: a.Expect | None) -> Element | None:
    """The input's target as its app tells of it; None where it does not, or nobody has asked.

    Raises:
        AccessibilityUnavailable: something is stated about it, and it can't be known what it is.
    """
    action, port = batch.request.inputs[index], batch.accessibility
    point = _point(batch.atoms[index]) if isinstance(action, a.POINTER_TYPES) else None
    if port is None or expect is None:
        return await witness.seen_before(port, action, point)
    if point is None or expect.field not in witness.FIELDS:
        return None
    found = await witness.target_of(port, point)
    if found is None:
        raise AccessibilityUnavailable("the app at that point does not tell what is there")
    return found


async def bear_witness(batch: Batch, last: int | None) -> None:
    """Take what the target of input *last* has become as evidence for it, if its effect is still open."""
    if last is None or batch.acted_on is None or not _open(batch, last):
        return
    told = await witness.evidence(batch.accessibility, batch.acted_on)
    if told is not None:
        receipt = batch.receipts[last]
        effect = Effect(outcome=Outcome.CONFIRMED, evidence=told)
        batch.receipts[last] = input_receipt(last, receipt.type, receipt.delivery, effect)


def _open(batch: Batch, index: int) -> bool:
    """Whether the input was delivered, states nothing, and has no evidence yet."""
    receipt = batch.receipts[index]
    delivered = receipt.delivery.outcome is Outcome.CONFIRMED
    stated = _expect(batch.request.inputs[index]) is not None
    return delivered and not stated and receipt.effect.outcome is Outcome.UNCERTAIN


async def _send(batch: Batch, display: Display, index: int) -> SendReport:
    action = batch.request.inputs[index]
    match action:
        case a.Wait():
            return await _wait(batch, action)
        case a.TakeScreenshot():
            return SendReport(sent=1, of=1)
        case a.Paste():
            return await display.paste(action.text, batch.permit)
        case _:
            bound = batch.sight is not None and batch.request.binding != "none"
            return await display.send(
                batch.atoms[index],
                batch.permit,
                lambda count: batch.note(index, count),
                focus=batch.scene.focus if bound else None,
            )


async def _wait(batch: Batch, action: a.Wait) -> SendReport:
    of = units(action)
    begun = trio.current_time()
    with trio.move_on_after(action.ms / 1000):
        await batch.interrupted.wait()
    if not batch.interrupted.is_set():
        return SendReport(sent=of, of=of)
    return SendReport(
        sent=min(of, int((trio.current_time() - begun) / SLICE_SECONDS)), of=of, failure="interrupted"
    )


def delivered(report: SendReport, of: int) -> Delivery:
    """The delivery fact of a send report: confirmed, failed with a count, or uncertain."""
    sent = Sent(units=report.sent, of=of)
    if not report.certain:
        return Delivery(outcome=Outcome.UNCERTAIN, sent=sent, reason=report.failure or "unknown")
    if report.interference:
        return Delivery(outcome=Outcome.UNCERTAIN, sent=sent, reason="interference")
    if report.failure is not None:
        return Delivery(outcome=Outcome.FAILED, sent=sent, reason=report.failure)
    if not report.readback_ok:
        return Delivery(outcome=Outcome.UNCERTAIN, sent=sent, reason="readback_mismatch")
    return Delivery(outcome=Outcome.CONFIRMED, sent=sent)


def _undelivered(delivery: Delivery) -> Effect:
    if delivery.outcome is Outcome.FAILED and delivery.sent.units == 0:
        return Effect(outcome=Outcome.FAILED)
    return Effect(outcome=Outcome.UNCERTAIN)


def _lost(index: int, action: a.Action, of: int) -> InputReceipt:
    delivery = Delivery(outcome=Outcome.UNCERTAIN, sent=Sent(units=0, of=of), reason="display_lost")
    return input_receipt(index, action.type, delivery, Effect(outcome=Outcome.UNCERTAIN))


def _expect(action: a.Action) -> a.Expect | None:
    return getattr(action, "expect", None)


def _unmet(receipt: InputReceipt) -> bool:
    """What was stated did not come true, or nobody can say whether it did."""
    return receipt.effect.evidence in ("expect_unmet", "expect_unread")


def _credit(batch: Batch, last: int | None, after: Scene) -> None:
    """Take what is different in *after* as evidence for input *last*, if its effect is still open."""
    found = verifier.changes(batch.scene.windows, after.windows, restless=batch.restless)
    if last is None or not found:
        return
    receipt, action = batch.receipts[last], batch.request.inputs[last]
    if batch.sight is not None:
        batch.reach = batch.reach.switching(action, verifier.activated(found), batch.sight)
    clients = {**batch.scene.clients, **after.clients}
    found = verifier.attributable(found, clients, batch.reach.touched, managed=for_manager(action))
    if not found or not _open(batch, last):
        return
    effect = verifier.effect(action, found=found)
    batch.receipts[last] = input_receipt(last, receipt.type, receipt.delivery, effect)


def conclude(batch: Batch, done: Dispatched, after: Scene, changed: bool | None) -> tuple[InputReceipt, ...]:
    """The final receipts: what was seen after settling is evidence for the last input."""
    _credit(batch, done.last, after)
    if done.last is not None and changed is not None:
        receipt = batch.receipts[done.last]
        effect = receipt.effect.model_copy(update={"changed": changed})
        batch.receipts[done.last] = receipt.model_copy(update={"effect": effect})
    return tuple(batch.receipts)


async def _expectation(batch: Batch, display: Display, expect: a.Expect, before: bytes | None) -> bool | None:
    """Whether the expectation is met by its deadline; None if the batch drained first, or as `_in_time`."""
    met: bool | None = None
    async with trio.open_nursery() as nursery:

        async def cut_short() -> None:
            await batch.interrupted.wait()
            nursery.cancel_scope.cancel(reason="the batch drains")

        nursery.start_soon(cut_short)
        met = await _in_time(batch, display, expect, before)
        nursery.cancel_scope.cancel(reason="the expectation is judged")
    return met


async def _in_time(batch: Batch, display: Display, expect: a.Expect, before: bytes | None) -> bool | None:
    """Look again and again; None if the last look read nothing: a clipboard whose owner is silent, say."""
    deadline = trio.current_time() + expect.within_ms / 1000
    while True:
        met: bool | None = None
        with suppress(BodydError), trio.move_on_at(max(deadline, trio.current_time() + EXPECT_LOOK_SECONDS)):
            met = await _met(batch, display, expect, before)
        left = deadline - trio.current_time()
        if met or left <= 0:
            return met
        await trio.sleep(min(left, SLICE_SECONDS))


async def _met(batch: Batch, display: Display, expect: a.Expect, before: bytes | None) -> bool:
    match expect.field:
        case "window_title":
            return any(verifier.text_matches(expect, w.title) for w in await display.windows())
        case "active_window":
            active = next((w for w in await display.windows() if w.active), None)
            return verifier.text_matches(expect, active.title if active else None)
        case "clipboard":
            return verifier.text_matches(expect, await display.read_clipboard())
        case "pixels":
            assert expect.bounds is not None
            return await display.pixels(expect.bounds) != before
        case _:
            assert batch.accessibility is not None, "refused before anything was sent"
            now = await witness.read(batch.accessibility, expect.field, batch.acted_on)
            return verifier.text_matches(expect, now)


async def look(display: Display, known: Scene) -> Scene:
    """The windows now; the known ones where the display does not answer (a send will say so)."""
    try:
        return await display.scene()
    except DisplayUnavailable:
        return known


async def _let_go(batch: Batch, display: Display) -> None:
    """Every key and button up, on every way out; a failure here is found by the quiescence proof."""
    clean = len(batch.receipts) == len(batch.request.inputs) and all(
        r.delivery.outcome is Outcome.CONFIRMED for r in batch.receipts
    )
    if clean and not any(isinstance(x, a.ButtonDown) for x in batch.request.inputs):
        return
    with suppress(DisplayUnavailable):
        await display.release_all()
