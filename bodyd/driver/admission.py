"""What a batch must satisfy before anything is sent: screenshot, coordinates, binding. Pure.

The counterpart is dispatcher.py, which feeds it the facts of the moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bodyd.contract import actions as a
from bodyd.contract.atoms import Atom, plan
from bodyd.contract.elements import Element, Target
from bodyd.contract.geometry import Bounds, Point, Size, image_to_body
from bodyd.contract.inventory import Window
from bodyd.contract.keys import chord
from bodyd.contract.screenshots import Screenshot
from bodyd.errors import OutOfBounds, StaleScreenshot

_FRESH = "take a fresh screenshot and look again; nothing was sent"


@dataclass(frozen=True, slots=True)
class Sight:
    """A screenshot as bound to a driver: it also remembers the screen that it was taken of."""

    shot: Screenshot
    screen: tuple[int, int]
    """(display serial, geometry serial): another value means that every pixel may have moved."""
    popups: tuple[Window, ...] = ()
    """Menus and lists that were open in it: override-redirect windows, which no client list has."""
    focus: int = 0
    """The X client that had the keyboard."""
    grabbed: bool = False
    """Whether a client had grabbed the pointer or the keyboard, as an open menu does."""
    before: tuple[Window, ...] | None = None
    """The windows, and above them the popups, right before the picture, if they were others than after it."""

    def top_at(self, point: Point) -> Window | None:
        """What would have got a click at *point* of the screen when the screenshot was taken."""
        return pointer_target(self.popups, point) or pointer_target(self.shot.windows, point)

    def changed_at(self, point: Point) -> bool:
        """Whether what was on top there changed while the picture was taken: it may show either."""
        if self.before is None:
            return False
        hits = [w for w in self.before if not w.minimised and w.bounds.contains(point)]
        then, since = hits[-1] if hits else None, self.top_at(point)
        return _place(then) != _place(since)

    @property
    def focus_changed(self) -> bool:
        """Whether another window became active while the picture was taken."""
        active, since = _active(self.before or ()), self.shot.active_window
        return self.before is not None and active != (since.id if since else None)


def needs_sight(actions: Sequence[a.Action]) -> bool:
    """Whether the batch has input that is meant for something seen."""
    return any(isinstance(x, (*a.POINTER_TYPES, *a.KEYBOARD_TYPES)) for x in actions)


def check_sight(
    request: a.InputRequest, latest: Sight | None, *, epoch: int, screen: tuple[int, int]
) -> Sight | None:
    """The screenshot that the batch is bound to; None where it needs none.

    Raises:
        StaleScreenshot: it names another than the latest given to this driver, or one of another
            epoch or screen size, or none was ever given.
    """
    if request.screenshot_id is None and (request.binding == "none" or not needs_sight(request.inputs)):
        return None
    if latest is None:
        raise StaleScreenshot(f"no screenshot was given to this driver yet; {_FRESH}", param="screenshot_id")
    if request.screenshot_id not in (None, latest.shot.screenshot_id):
        raise StaleScreenshot(
            f"{request.screenshot_id!r} is not the latest screenshot given to this driver; {_FRESH}",
            param="screenshot_id",
            latest_screenshot_id=latest.shot.screenshot_id,
        )
    if latest.shot.epoch != epoch:
        raise StaleScreenshot(f"the screenshot is of another lease epoch; {_FRESH}", param="screenshot_id")
    if latest.screen != screen:
        raise StaleScreenshot(
            f"the screen was resized or restarted since the screenshot; {_FRESH}", param="screenshot_id"
        )
    return latest


def plan_batch(
    actions: Sequence[a.Action], sight: Sight | None, screen: Size
) -> tuple[tuple[Atom, ...], ...]:
    """The atoms of every input, mapped to the body's screen, before the first is sent.

    Without a screenshot (binding "none"), coordinates are the screen's own.

    Raises:
        OutOfBounds: a coordinate outside the image or off the screen; names the input.
        StaleScreenshot: an element that the screenshot does not tell of.
    """
    image = sight.shot.size if sight else screen
    bounds = sight.shot.bounds if sight else Bounds(x=0, y=0, width=screen.width, height=screen.height)
    whole = Bounds(x=0, y=0, width=screen.width, height=screen.height)
    planned = []
    for index, action in enumerate(actions):

        def to_body(x: int, y: int, index: int = index) -> Point:
            point = image_to_body(x, y, image, bounds, param=f"inputs[{index}]")
            if not whole.contains(point):
                raise OutOfBounds(
                    f"({x}, {y}) of the screenshot is at ({point.x}, {point.y}), off the body's screen",
                    param=f"inputs[{index}]",
                )
            return point

        if isinstance(action, a.ClickElement):
            middle = middle_of(action, sight, index=index)
            planned.append(plan(action.at(middle.x, middle.y), lambda x, y: Point(x=x, y=y)))
        else:
            planned.append(plan(action, to_body))
    return tuple(planned)


def element_of(action: a.ClickElement, sight: Sight | None, *, index: int) -> Element:
    """The element as the screenshot has it.

    Raises:
        StaleScreenshot: it has none of that id, or no elements.
    """
    told = (sight.shot.elements if sight is not None else None) or ()
    found = next((element for element in told if element.id == action.id), None)
    if found is None:
        raise StaleScreenshot(
            f"inputs[{index}]: the screenshot tells of no such element; take one with `elements` and look "
            "again; nothing was sent",
            param=f"inputs[{index}].id",
        )
    return found


def middle_of(action: a.ClickElement, sight: Sight | None, *, index: int) -> Point:
    """Where it is clicked, on the body's screen. Raises StaleScreenshot, as `element_of`."""
    place = element_of(action, sight, index=index).bounds
    return Point(x=place.x + place.width // 2, y=place.y + place.height // 2)


def check_element(seen: Element, now: Target | None, *, index: int) -> None:
    """The element that gets the click is the one that was seen, or is in it, and looks as it did.

    Args:
        now: What is at the middle of where it was.
    Raises:
        StaleScreenshot: it has gone, moved, changed its role or name, or something covers it.
    """
    if now is not None and now.element is not None:
        around = {(ancestor.id, ancestor.role, ancestor.name) for ancestor in now.ancestors}
        itself = now.element.id == seen.id and now.element.bounds == seen.bounds
        if (seen.id, seen.role, seen.name) in around | ({_named(now.element)} if itself else set()):
            return
    raise StaleScreenshot(
        f"inputs[{index}]: the element is not there any more as it was; {_FRESH}", param=f"inputs[{index}].id"
    )


def _named(element: Element) -> tuple[str, str, str]:
    return (element.id, element.role, element.name)


def _place(window: Window | None) -> tuple[int, Bounds] | None:
    return (window.id, window.bounds) if window else None


def _active(windows: Sequence[Window]) -> int | None:
    return next((w.id for w in windows if w.active), None)


def pointer_target(windows: Sequence[Window], point: Point) -> Window | None:
    """The top-most window at *point*, in screen pixels."""
    hits = [w for w in windows if not w.minimised and w.bounds.contains(point)]
    return max(hits, key=lambda w: w.stacking, default=None)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a batch's inputs so far were aimed at: what these bring about counts as seen.

    Attributes:
        touched: X clients of the windows that pointer input was aimed at: their popups are targets.
        acted: Those of them that were pressed, and of the windows that keys went to.
        pressed: The windows that were pressed: a press may raise and activate them.
        switched: Windows that a key press for the window manager made active.
    """

    touched: frozenset[int] = frozenset()
    acted: frozenset[int] = frozenset()
    pressed: frozenset[int] = frozenset()
    switched: frozenset[int] = frozenset()

    def aimed(self, action: a.Action, window: Window | None, client: int | None) -> Reach:
        """After *action* was sent to *window* of *client*."""
        if window is None or client is None:
            return self
        if isinstance(action, a.Move | a.Scroll):
            return replace(self, touched=self.touched | {client})
        return replace(
            self,
            touched=self.touched | {client},
            acted=self.acted | {client},
            pressed=self.pressed | {window.id} if isinstance(action, a.POINTER_TYPES) else self.pressed,
        )

    def switching(self, action: a.Action, activated: frozenset[int], sight: Sight) -> Reach:
        """After *action*, when the windows in *activated* had become active.

        Keys with Alt may be for the window manager, which switches between windows of any app; only to
        those that the driver saw, since a window that opens by itself takes the focus at any moment.
        """
        if not for_manager(action):
            return self
        seen = {w.id for w in sight.shot.windows}
        return replace(self, switched=self.switched | (activated & seen))

    def opened(self, sight: Sight, clients: Mapping[int, int]) -> frozenset[int]:
        """Windows and popups that count as targets of pointer input though the driver did not see them."""
        seen = {w.id for w in (*sight.shot.windows, *sight.popups)}
        new = {w for w, client in clients.items() if client in self.touched and w not in seen}
        return self.pressed | new

    def focusable(self, clients: Mapping[int, int]) -> frozenset[int]:
        """Windows that may have the keyboard though another had it in the screenshot."""
        return self.pressed | self.switched | {w for w, client in clients.items() if client in self.acted}


def check_uncovered(now: Window | None, top: int, *, index: int) -> None:
    """The server would give the click to the window that the places of all windows say.

    Args:
        top: The id of what the server says; 0 for the root.
    Raises:
        StaleScreenshot: a window that shows nothing, is of another shape, or is too many gets it.
    """
    if (now.id if now else 0) != top:
        raise StaleScreenshot(
            f"inputs[{index}]: something that the windows don't show would get this; {_FRESH}",
            param=f"inputs[{index}]",
        )


def check_free(sight: Sight, grabbed: bool, *, index: int) -> None:
    """Nobody has grabbed pointer or keyboard since the screenshot, with nothing sent since then.

    Raises:
        StaleScreenshot: the grabber would get whatever is sent.
    """
    if grabbed and not sight.grabbed:
        raise StaleScreenshot(
            f"inputs[{index}]: an app has grabbed the pointer or the keyboard since; {_FRESH}",
            param=f"inputs[{index}]",
        )


def check_pointer(
    sight: Sight, now: Window | None, point: Point, *, index: int, opened: frozenset[int] = frozenset()
) -> None:
    """The same window as in the screenshot, at the same place, is still on top at *point*.

    `opened` are windows that earlier input of the same batch has brought up (`Reach.opened`); if they
    were in the screenshot, they must still be where they were.

    Raises:
        StaleScreenshot: something else would get the click.
    """
    if sight.changed_at(point):
        raise StaleScreenshot(
            f"inputs[{index}]: the windows there changed while the screenshot was taken; {_FRESH}",
            param=f"inputs[{index}]",
        )
    seen = sight.top_at(point)
    if now is None and seen is None:
        return
    if now is None or ((seen is None or seen.id != now.id) and now.id not in opened):
        raise StaleScreenshot(
            f"inputs[{index}]: another window is at that point now; {_FRESH}", param=f"inputs[{index}]"
        )
    then = next((w for w in (*sight.popups, *sight.shot.windows) if w.id == now.id), None)
    if then is not None and then.bounds != now.bounds:
        raise StaleScreenshot(
            f"inputs[{index}]: the window there was moved or resized; {_FRESH}", param=f"inputs[{index}]"
        )


def check_keyboard(
    seen: Window | None, now: Window | None, *, index: int, moved_to: frozenset[int] = frozenset()
) -> None:
    """The active window is the screenshot's, or one that this batch's own input activated.

    Raises:
        StaleScreenshot: the keys would go elsewhere.
    """
    if (now.id if now else None) == (seen.id if seen else None) or (now and now.id in moved_to):
        return
    raise StaleScreenshot(
        f"inputs[{index}]: another window has the keyboard now; {_FRESH}", param=f"inputs[{index}]"
    )


def check_focus(
    sight: Sight,
    active: Window | None,
    focus: int,
    *,
    index: int,
    clients: Mapping[int, int],
    acted: frozenset[int],
) -> None:
    """Keys go where the window manager says, by the server's word: to the active window's app.

    Args:
        focus: The X client that they go to. Where no window is active, the one of the screenshot.
        acted: Clients that earlier input of the batch was aimed at: theirs may have the keyboard.
    Raises:
        StaleScreenshot: another app would get them.
    """
    meant = sight.focus if active is None else clients.get(active.id)
    if focus != meant and focus not in acted:
        raise StaleScreenshot(
            f"inputs[{index}]: another app than that of the active window has the keyboard now; {_FRESH}",
            param=f"inputs[{index}]",
        )


def for_manager(action: a.Action) -> bool:
    """Whether the keys may be for the window manager: those with Alt or Super are."""
    if not isinstance(action, a.Keypress | a.Hold):
        return False
    return any(key.name.startswith(("Alt_", "Super_")) for key in chord(action.keys))
