"""openbox's configuration: focus and windows, an empty root menu, no terminal, hardly any keys. Pure."""

from __future__ import annotations

import os

from .spec import OURS

_RC = f"{OURS}/openbox/rc.xml"
_MENU = f"{OURS}/openbox/menu.xml"

_BUTTONS = {"Close": "Close", "Maximize": "ToggleMaximize", "Iconify": "Iconify"}
_EDGES = {"Bottom": "bottom", "Left": "left", "Right": "right"}
_CORNERS = ("TLCorner", "TRCorner", "BLCorner", "BRCorner")


def command(path: str) -> tuple[str, ...]:
    """The window manager's command line; only openbox is given a configuration of ours."""
    if os.path.basename(path) == "openbox":
        return (path, "--sm-disable", "--config-file", _RC)
    return (path,)


def files() -> dict[str, bytes]:
    """openbox's files, by path inside."""
    return {_RC: _rc().encode(), _MENU: _MENU_XML.encode()}


_MENU_XML = """<?xml version="1.0" encoding="UTF-8"?>
<openbox_menu xmlns="http://openbox.org/3.4/menu"><menu id="root-menu" label="body"/></openbox_menu>
"""


def _rc() -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
 <focus><focusNew>yes</focusNew><followMouse>no</followMouse><raiseOnFocus>no</raiseOnFocus></focus>
 <placement><policy>Smart</policy><center>yes</center></placement>
 <theme><name>Clearlooks</name><titleLayout>LIMC</titleLayout><animateIconify>no</animateIconify></theme>
 <desktops><number>1</number><popupTime>0</popupTime></desktops>
 <resize><drawContents>yes</drawContents><popupShow>Never</popupShow></resize>
 <keyboard>
  <keybind key="A-F4"><action name="Close"/></keybind>
  <keybind key="A-Tab"><action name="NextWindow"><dialog>none</dialog>
   <finalactions><action name="Focus"/><action name="Raise"/></finalactions></action></keybind>
 </keyboard>
 <mouse>
  <dragThreshold>1</dragThreshold><doubleClickTime>500</doubleClickTime>
  {_contexts()}
 </mouse>
 <menu><file>{_MENU}</file><hideDelay>0</hideDelay></menu>
 <applications>
  <application class="*" type="normal" role="browser"><maximized>yes</maximized></application>
 </applications>
</openbox_config>
"""


def _contexts() -> str:
    raise_focus = _bind("Left", "Press", "Focus", "Raise", "Unshade")
    titlebar = _bind("Left", "Press", "Focus", "Raise") + _bind("Left", "Drag", "Move")
    parts = [
        _context("Frame", _bind("A-Left", "Drag", "Move")),
        _context(
            "Client",
            raise_focus
            + _bind("Middle", "Press", "Focus", "Raise")
            + _bind("Right", "Press", "Focus", "Raise"),
        ),
        _context("Titlebar", titlebar + _bind("Left", "DoubleClick", "ToggleMaximize")),
    ]
    parts += [
        _context(name, raise_focus + _bind("Left", "Click", action)) for name, action in _BUTTONS.items()
    ]
    for name, edge in _EDGES.items():
        resize = f'<action name="Resize"><edge>{edge}</edge></action>'
        drag = f'<mousebind button="Left" action="Drag">{resize}</mousebind>'
        parts.append(_context(name, raise_focus + drag))
    parts += [_context(name, raise_focus + _bind("Left", "Drag", "Resize")) for name in _CORNERS]
    return "\n  ".join(parts)


def _context(name: str, binds: str) -> str:
    return f'<context name="{name}">{binds}</context>'


def _bind(button: str, on: str, *actions: str) -> str:
    done = "".join(f'<action name="{action}"/>' for action in actions)
    return f'<mousebind button="{button}" action="{on}">{done}</mousebind>'
