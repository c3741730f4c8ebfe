"""Probes: does the window manager handle events, has an app read its own?

Asked by client messages (EWMH), answered by another client or never: the caller looks for the answer
now and then, bounded. Blocks in a lane's thread.
"""

from __future__ import annotations

import itertools
from typing import Protocol

from Xlib import X
from Xlib.protocol import event

from .connection import XConnection
from .windows import numbers, property_of, reply_to, root_facts
from .xinput import pending

_serials = itertools.count(1)


class Question(Protocol):
    """Something asked of another client, over connection `x`; all of it blocks in its thread."""

    x: XConnection

    def answered(self) -> bool: ...

    def close(self) -> None: ...


class ManagerProbe:
    """A question that only a window manager whose event loop runs answers (EWMH, frame extents)."""

    def __init__(self, x: XConnection) -> None:
        self.x = x
        self._extents = x.atom("_NET_FRAME_EXTENTS")
        self._window = x.root.create_window(-1, -1, 1, 1, 0, X.CopyFromParent)

    def ask(self) -> None:
        self.x.root.send_event(
            event.ClientMessage(
                window=self._window,
                client_type=self.x.atom("_NET_REQUEST_FRAME_EXTENTS"),
                data=(32, [0] * 5),
            ),
            event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask,
        )
        self.x.display.flush()

    def answered(self) -> bool:
        return self._window.get_property(self._extents, X.AnyPropertyType, 0, 4) is not None

    def close(self) -> None:
        self._window.destroy()
        self.x.display.flush()


class Ping:
    """A question to the active window's app, answered when it has read all that came before (EWMH).

    So an answer proves that no key press sent earlier is still unread. xterm and its like do not take
    part in the protocol.
    """

    def __init__(self, x: XConnection) -> None:
        """Ask. `expected` is False, and the answer at once yes, if there is nobody to answer."""
        self.x = x
        self._serial = next(_serials)
        self._ping = x.atom("_NET_WM_PING")
        _, self._window, _ = root_facts(x)
        protocols = numbers(reply_to(property_of(x, self._window, x.atom("WM_PROTOCOLS"), 32)))
        self.expected = bool(self._window) and self._ping in protocols
        if self.expected:
            x.root.change_attributes(event_mask=X.SubstructureNotifyMask)  # answers go to the root
            self._send()

    def _send(self) -> None:
        window = self.x.display.create_resource_object("window", self._window)
        data = [self._ping, self._serial, self._window, 0, 0]
        message = event.ClientMessage(window=window, client_type=self.x.atom("WM_PROTOCOLS"), data=(32, data))
        window.send_event(message, event_mask=X.NoEventMask)
        self.x.display.flush()

    def answered(self) -> bool:
        """Whether the answer is there; also that of a window that has gone."""
        if not self.expected:
            return True
        self.x.display.sync()
        for happened in pending(self.x):
            if happened.type == X.ClientMessage and list(happened.data[1])[:2] == [self._ping, self._serial]:
                return True
            if happened.type == X.DestroyNotify and happened.window.id == self._window:
                return True
        return False

    def close(self) -> None:
        if self.expected:
            self.x.root.change_attributes(event_mask=X.NoEventMask)
            self.x.display.sync()
            for _ in pending(self.x):
                pass
