"""Selections: the X side of clipboards, as a client that owns some and reads others' (ICCCM 2).

All text goes as UTF-8. What is larger than a request goes in pieces (INCR, 2.7.2), both ways. Every
method runs in the lane's thread and none waits for another client: what comes of a question is told
by `pump`, whenever the other client answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from Xlib import X, Xatom
from Xlib import error as xlib_error
from Xlib.protocol import event, request

from .connection import Wire, XConnection, XObject
from .xinput import pending

PIECE = 65_536
"""Bytes of one INCR piece; well below the 256 KiB that a request without BIG-REQUESTS can carry."""

DIRECT = 3 * PIECE
MOST_BYTES = 16 * 1024 * 1024
"""A clipboard larger than this is not read."""

_MOST_TRANSFERS = 16
_INBOXES = 16
"""Each question has an inbox of its own for so long: an answer that comes late is no answer to the next."""

Content = Mapping[str, bytes]
"""What a selection holds: target names (UTF8_STRING, text/html, …) to bytes."""


def text_content(text: str) -> dict[str, bytes]:
    data = text.encode()
    return {
        "UTF8_STRING": data,
        "text/plain;charset=utf-8": data,
        "text/plain": data,
        "TEXT": data,
        "STRING": text.encode("latin-1", "replace"),
    }


@dataclass(frozen=True, slots=True)
class Received:
    """The answer to `ask`; None: the owner has nothing of that kind, or there is no owner."""

    data: bytes | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """Another piece of a long answer has come."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """The answer exceeds MOST_BYTES and was given up."""


@dataclass(frozen=True, slots=True)
class Served:
    """Another client has taken all of what we own."""

    selection: str
    target: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Another client owns the selection now."""

    selection: str


Happening = Received | Progressed | TooLong | Served | Lost


@dataclass(slots=True)
class _Transfer:
    """An INCR on its way out."""

    selection: str
    target: str
    kind: int
    data: bytes
    sent: int = 0


class SelectionConnection(XConnection):
    """A connection with a window that owns selections."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._window = self.root.create_window(
            -1, -1, 1, 1, 0, X.CopyFromParent, event_mask=X.PropertyChangeMask
        )
        self._offers: dict[str, Content] = {}
        self._transfers: dict[tuple[int, int], _Transfer] = {}
        self._incoming: bytearray | None = None
        self._asking = False
        self._asked = 0
        self._inbox = self._selection = self._target = X.NONE
        self._happened: deque[Happening] = deque()

    # -- owning -----------------------------------------------------------------------------------

    def own(self, selection: str, content: Content) -> bool:
        """Become the owner of *selection*, serving *content*; False if someone was faster."""
        self._still_ours()
        atom = self.atom(selection)
        self._window.set_selection_owner(atom, self._server_time())
        if self._owner(atom) != self._window.id:
            return False
        self._offers[selection] = content
        return True

    def disown(self, selection: str) -> None:
        """Leave *selection* without an owner, if it is ours."""
        if self._offers.pop(selection, None) is not None:
            request.SetSelectionOwner(
                display=self.core, window=X.NONE, selection=self.atom(selection), time=X.CurrentTime
            )
            self.display.sync()

    def held(self, selection: str) -> Content | None:
        """What we offer there, if we own it."""
        return self._offers.get(selection) if self._owner(self.atom(selection)) == self._window.id else None

    def taken(self, selection: str) -> bool:
        """Whether another client owns it."""
        return self._owner(self.atom(selection)) not in (X.NONE, self._window.id)

    def _still_ours(self) -> None:
        """Raises BadWindow if another client has destroyed the window: nothing can be owned or asked then."""
        self._window.get_attributes()

    def _owner(self, atom: int) -> int:
        owner: XObject = self.display.get_selection_owner(atom)
        return owner if isinstance(owner, int) else int(owner.id)

    def _server_time(self) -> int:
        """The server's clock: a property change tells it (ICCCM 2.1 forbids CurrentTime here)."""
        stamp = self.atom("BODYD_TIME")
        self._window.change_property(stamp, Xatom.INTEGER, 32, [])
        self.display.sync()
        time = X.CurrentTime
        for happened in pending(self):
            if happened.type == X.PropertyNotify and happened.atom == stamp:
                time = happened.time
            else:
                self._handle(happened)
        return time

    # -- reading ----------------------------------------------------------------------------------

    def ask(self, selection: str, target: str) -> None:
        """Ask the owner for *target*; `pump` will tell Received."""
        self._still_ours()
        self._incoming = None
        self._asking = True
        self._asked += 1
        self._inbox = self.atom(f"BODYD_INBOX_{self._asked % _INBOXES}")
        self._selection, self._target = self.atom(selection), self.atom(target)
        self._window.delete_property(self._inbox)
        self._window.convert_selection(self._selection, self._target, self._inbox, X.CurrentTime)
        self.display.flush()

    def give_up(self) -> None:
        """Take no answer to `ask` any more."""
        self._asking, self._incoming = False, None

    def _answered(self, notice: XObject) -> None:
        if not self._asking or (notice.selection, notice.target) != (self._selection, self._target):
            return
        if notice.property not in (X.NONE, self._inbox):
            return  # the answer to a question that was given up
        if notice.property == X.NONE:
            self._asking = False
            self._happened.append(Received(None))
            return
        kind, data = self._take_inbox()
        if kind == self.atom("INCR"):
            self._incoming = bytearray()  # taking the property away asked for the first piece
        else:
            self._asking = False
            self._happened.append(Received(data))

    def _piece(self) -> None:
        if not self._asking or self._incoming is None:
            return
        _, data = self._take_inbox()
        if not data:
            self._asking = False
            self._happened.append(Received(bytes(self._incoming)))
            return
        self._incoming += data
        if len(self._incoming) > MOST_BYTES:
            self.give_up()
            self._happened.append(TooLong())
        else:
            self._happened.append(Progressed())

    def _take_inbox(self) -> tuple[int, bytes]:
        answer: XObject = self._window.get_property(
            self._inbox, X.AnyPropertyType, 0, MOST_BYTES // 4, delete=True
        )
        if answer is None:
            return X.NONE, b""
        value = answer.value
        data = value if isinstance(value, bytes) else value.tobytes()  # atoms come as an array
        return int(answer.property_type), data

    # -- events -----------------------------------------------------------------------------------

    def pump(self) -> list[Happening]:
        """Handle every event that has arrived; what came of it, in order."""
        queue: XObject = self.core
        while True:
            for happened in pending(self):
                self._handle(happened)
            self.display.flush()
            if not queue.event_queue:  # flushing reads, too: the descriptor would not tell of those
                break
        told = list(self._happened)
        self._happened.clear()
        return told

    def _handle(self, happened: XObject) -> None:
        try:
            match happened.type:
                case X.SelectionRequest:
                    self._serve(happened)
                case X.SelectionNotify:
                    self._answered(happened)
                case X.SelectionClear:
                    self._cleared(happened)
                case X.PropertyNotify if happened.window.id == self._window.id:
                    if happened.atom == self._inbox and happened.state == X.PropertyNewValue:
                        self._piece()
                case X.PropertyNotify if happened.state == X.PropertyDelete:
                    self._continue((happened.window.id, happened.atom))
                case _:
                    pass
        except xlib_error.XError:
            pass  # the other client's window is gone, and its wish with it

    def _cleared(self, notice: XObject) -> None:
        for selection in list(self._offers):
            if self.atom(selection) == notice.atom and self._owner(notice.atom) != self._window.id:
                del self._offers[selection]
                self._happened.append(Lost(selection))

    def _serve(self, wish: XObject) -> None:
        place = wish.property or wish.target  # obsolete clients name no property (ICCCM 2.2)
        selection = next((s for s in self._offers if self.atom(s) == wish.selection), None)
        done = selection is not None and self._fulfil(selection, wish, place)
        notice = event.SelectionNotify(
            time=wish.time,
            requestor=wish.requestor,
            selection=wish.selection,
            target=wish.target,
            property=place if done else X.NONE,
        )
        wish.requestor.send_event(notice)

    def _fulfil(self, selection: str, wish: XObject, place: int) -> bool:
        """Write the answer to the requestor's property; False if there is none."""
        content = self._offers[selection]
        if wish.target == self.atom("TARGETS"):
            targets = [self.atom("TARGETS"), *(self.atom(name) for name in content)]
            wish.requestor.change_property(place, Xatom.ATOM, 32, targets)
            return True
        name = next((n for n in content if self.atom(n) == wish.target), None)
        if name is None:
            return False
        kind = self.atom("UTF8_STRING") if name == "TEXT" else wish.target
        data = content[name]
        if len(data) <= DIRECT:
            wish.requestor.change_property(place, kind, 8, data)
            self._happened.append(Served(selection, name))
            return True
        while len(self._transfers) >= _MOST_TRANSFERS:  # whoever stopped taking pieces
            del self._transfers[next(iter(self._transfers))]
        self._transfers[wish.requestor.id, place] = _Transfer(selection, name, kind, data)
        wish.requestor.change_attributes(event_mask=X.PropertyChangeMask)
        wish.requestor.change_property(place, self.atom("INCR"), 32, [len(data)])
        return True

    def _continue(self, where: tuple[int, int]) -> None:
        """The requestor has taken the last piece: the next, an empty one at the end."""
        transfer = self._transfers.get(where)
        if transfer is None:
            return
        piece = transfer.data[transfer.sent : transfer.sent + PIECE]
        window = self.display.create_resource_object("window", where[0])
        window.change_property(where[1], transfer.kind, 8, piece)
        transfer.sent += len(piece)
        if not piece:
            del self._transfers[where]
            window.change_attributes(event_mask=X.NoEventMask)
            self._happened.append(Served(transfer.selection, transfer.target))
