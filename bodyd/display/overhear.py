"""Overhearing: input events that other X clients make up and send to each other.

SendEvent goes past every device, so the echo (xinput.py) does not see it; the RECORD extension does.
It is on only while a batch is sent. Data comes over a connection of its own, which the server serves
nothing else on; a marker sent after the batch tells that all before it has been heard. Blocks in the
sender's thread. Source: RECORD extension protocol 1.13.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from Xlib import X
from Xlib.ext import record
from Xlib.protocol import event

from .connection import XConnection, XObject

_SEND_EVENT = 25
_EVENT_AT = 12  # in the request: opcode, propagate, length, destination, mask, event
_REQUEST_BYTES = 44
_INPUT = frozenset((X.KeyPress, X.KeyRelease, X.ButtonPress, X.ButtonRelease, X.MotionNotify))
_PATIENCE = 0.5
"""Seconds for a marker to be heard: the server writes it with its answer to the next request."""


class Overhearing:
    """Listens to all clients' SendEvent requests between `start` and `stop`."""

    def __init__(self, control: XConnection, data: XConnection) -> None:
        """
        Args:
            control: Turns it on and off and sends the marker.
            data: Receives; used for nothing else.
        """
        self._control = control
        self._data = data
        self._context = self._made()
        self._window = control.root.create_window(-1, -1, 1, 1, 0, X.CopyFromParent)
        self._marker = control.atom("BODYD_MARKER")
        control.display.sync()
        self._running = False
        self._marked = False
        self._heard = False
        self._serial = 0  # of the marker: one that comes late is not taken for the next

    def start(self) -> None:
        """From here on; returns once the server listens, or has not begun to in time."""
        self._heard = self._marked = self._running = False
        self._serial += 1
        self._enable()
        if not self._running:  # another client has destroyed the context, or RECORD is out of order
            self._context = self._made()
            self._enable()

    def stop(self) -> bool:
        """No longer; whether any client has made up an input event meanwhile, or not all was heard."""
        if self._running:
            self._mark()
        if not self._running:  # another client has stopped it, and what came since was not heard
            return True
        heard = self._heard or not self._marked
        display: XObject = self._control.display
        display.record_disable_context(self._context)
        display.sync()
        self._until(lambda: not self._running)
        return heard

    def _mark(self) -> None:
        """Wait until all that was sent up to now has been heard."""
        message = event.ClientMessage(
            window=self._window, client_type=self._marker, data=(32, [self._serial, 0, 0, 0, 0])
        )
        self._window.send_event(message)
        self._control.display.sync()
        self._until(lambda: self._marked or not self._running)

    def _made(self) -> XObject:
        """A new context, disabled."""
        nothing = (0, 0)
        ranges = {
            "core_requests": (_SEND_EVENT, _SEND_EVENT),
            "core_replies": nothing,
            "ext_requests": (0, 0, 0, 0),
            "ext_replies": (0, 0, 0, 0),
            "delivered_events": nothing,
            "device_events": nothing,
            "errors": nothing,
            "client_started": False,
            "client_died": False,
        }
        display: XObject = self._control.display
        context = display.record_create_context(0, [record.AllClients], [ranges])
        display.sync()  # before it is asked for over the other connection
        return context

    def _enable(self) -> None:
        record.EnableContext(
            callback=self._take,
            display=self._data.core,
            defer=True,
            opcode=self._data.opcode("RECORD"),
            context=self._context,
        )
        self._data.display.flush()
        self._until(lambda: self._running)

    def _take(self, reply: XObject) -> None:
        if reply.category == record.StartOfData:
            self._running = True
        elif reply.category == record.EndOfData:
            self._running = False
        elif reply.category == record.FromClient:
            data = bytes(reply.data)
            for start in range(0, len(data) - _REQUEST_BYTES + 1, _REQUEST_BYTES):
                self._judge(data[start + _EVENT_AT : start + _REQUEST_BYTES])

    def _judge(self, made_up: bytes) -> None:
        kind = made_up[0] & 0x7F
        if kind == X.ClientMessage and int.from_bytes(made_up[8:12], "little") == self._marker:
            self._marked |= int.from_bytes(made_up[12:16], "little") == self._serial
        self._heard |= kind in _INPUT

    def _until(self, done: Callable[[], bool]) -> None:
        """Take what comes until *done*, bounded."""
        end = time.monotonic() + _PATIENCE
        poll = select.poll()
        poll.register(self._data.wire, select.POLLIN)
        while True:
            self._data.display.pending_events()
            left = end - time.monotonic()
            if done() or left <= 0:
                return
            poll.poll(left * 1000)
