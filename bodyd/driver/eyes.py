"""Accessibility of the display that is there now; imported and made only where it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bodyd.contract.inventory import Window
from bodyd.errors import AccessibilityUnavailable, DisplayUnavailable

from .live import LiveDisplay

if TYPE_CHECKING:
    from bodyd.display.elements import Elements


class BusPort(Protocol):
    """What is needed of desktop/: where the bus listens; None while there is none."""

    @property
    def bus_path(self) -> str | None: ...


def open_elements(live: LiveDisplay, desktop: BusPort) -> Elements:
    """The client of the accessibility bus, to be run; windows are those of the display of the moment."""
    from bodyd.display.elements import Elements

    async def look() -> tuple[Window, ...]:
        try:
            scene = await live.current.scene()
        except DisplayUnavailable:
            raise AccessibilityUnavailable("the display does not say where windows are") from None
        return (*scene.windows, *scene.popups)

    return Elements(lambda: desktop.bus_path, look)
