"""Key names: one table of our own from the names that models and SDKs send to X keysyms.

Names are compared lower-cased, without spaces, `-` and `_` ("Page_Down", "page-down", "PGDN" are
one key); a single character names itself. Pure: keycodes are display/keymap.py's affair.
Source: the names of xdotool, pyautogui, pynput, W3C UI Events `key` and `code`, and what the
computer-use models were seen to send; values from X11/keysymdef.h and XF86keysym.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bodyd.errors import UnknownKey

MAX_CHORD = 8

# (X keysym name, value, the names that mean it)
_TABLE: tuple[tuple[str, int, str], ...] = (
    ("Return", 0xFF0D, "enter return cr newline ⏎ ↵"),
    ("KP_Enter", 0xFF8D, "kpenter numpadenter numenter"),
    ("Tab", 0xFF09, "tab ⇥"),
    ("ISO_Left_Tab", 0xFE20, "isolefttab backtab"),
    ("Escape", 0xFF1B, "esc escape ⎋"),
    ("space", 0x0020, "space spacebar sp ␣"),
    ("BackSpace", 0xFF08, "backspace bksp bs ⌫"),
    ("Delete", 0xFFFF, "delete del forwarddelete ⌦"),
    ("Insert", 0xFF63, "insert ins"),
    ("Home", 0xFF50, "home ↖"),
    ("End", 0xFF57, "end ↘"),
    ("Page_Up", 0xFF55, "pageup pgup prior ⇞"),
    ("Page_Down", 0xFF56, "pagedown pgdn pgdown next ⇟"),
    ("Left", 0xFF51, "left arrowleft leftarrow ←"),
    ("Right", 0xFF53, "right arrowright rightarrow →"),
    ("Up", 0xFF52, "up arrowup uparrow ↑"),
    ("Down", 0xFF54, "down arrowdown downarrow ↓"),
    (
        "Control_L",
        0xFFE3,
        "ctrl control controll controlleft ctrlleft lctrl leftctrl leftcontrol ctl controlormeta ⌃",
    ),
    ("Control_R", 0xFFE4, "controlr controlright ctrlright rctrl rightctrl"),
    ("Shift_L", 0xFFE1, "shift shiftl shiftleft lshift leftshift ⇧"),
    ("Shift_R", 0xFFE2, "shiftr shiftright rshift rightshift"),
    ("Alt_L", 0xFFE9, "alt altl altleft lalt leftalt option opt optionleft leftoption ⌥"),
    ("Alt_R", 0xFFEA, "altr altright ralt rightalt optionright rightoption"),
    ("ISO_Level3_Shift", 0xFE03, "altgr altgraph isolevel3shift"),
    (
        "Super_L",
        0xFFEB,
        "super superl cmd command meta metal metaleft win windows winleft os osleft lwin lcmd "
        "lsuper leftmeta leftcommand commandleft ⌘",
    ),
    ("Super_R", 0xFFEC, "superr metaright metar winright rwin osright rightmeta rightcommand commandright"),
    ("Hyper_L", 0xFFED, "hyper hyperl"),
    ("Menu", 0xFF67, "menu contextmenu apps context"),
    ("Caps_Lock", 0xFFE5, "capslock caps"),
    ("Num_Lock", 0xFF7F, "numlock"),
    ("Scroll_Lock", 0xFF14, "scrolllock"),
    ("Print", 0xFF61, "print printscreen prtsc prtscr prntscrn printscr snapshot"),
    ("Pause", 0xFF13, "pause"),
    ("Break", 0xFF6B, "break"),
    ("Sys_Req", 0xFF15, "sysreq"),
    ("Help", 0xFF6A, "help"),
    ("Cancel", 0xFF69, "cancel"),
    ("Clear", 0xFF0B, "clear"),
    ("Undo", 0xFF65, "undo"),
    ("Redo", 0xFF66, "redo"),
    ("Find", 0xFF68, "find"),
    ("Select", 0xFF60, "select"),
    ("Execute", 0xFF62, "execute"),
    ("XF86AudioRaiseVolume", 0x1008FF13, "volumeup audiovolumeup"),
    ("XF86AudioLowerVolume", 0x1008FF11, "volumedown audiovolumedown"),
    ("XF86AudioMute", 0x1008FF12, "volumemute audiovolumemute mute"),
    ("XF86AudioPlay", 0x1008FF14, "playpause mediaplaypause play"),
    ("XF86AudioStop", 0x1008FF15, "mediastop stop"),
    ("XF86AudioNext", 0x1008FF17, "nexttrack mediatracknext"),
    ("XF86AudioPrev", 0x1008FF16, "prevtrack mediatrackprevious"),
    ("XF86Back", 0x1008FF26, "browserback back"),
    ("XF86Forward", 0x1008FF27, "browserforward forward"),
    ("XF86Refresh", 0x1008FF29, "browserrefresh refresh"),
    ("XF86HomePage", 0x1008FF18, "browserhome"),
    ("XF86Search", 0x1008FF1B, "browsersearch"),
    ("KP_Add", 0xFFAB, "kpadd numpadadd add"),
    ("KP_Subtract", 0xFFAD, "kpsubtract numpadsubtract subtract"),
    ("KP_Multiply", 0xFFAA, "kpmultiply numpadmultiply multiply"),
    ("KP_Divide", 0xFFAF, "kpdivide numpaddivide divide"),
    ("KP_Decimal", 0xFFAE, "kpdecimal numpaddecimal decimal"),
    ("KP_Separator", 0xFFAC, "kpseparator separator numpadcomma"),
    ("KP_Equal", 0xFFBD, "kpequal numpadequal"),
    ("minus", 0x002D, "minus hyphen dash"),
    ("equal", 0x003D, "equal equals"),
    ("plus", 0x002B, "plus"),
    ("underscore", 0x005F, "underscore"),
    ("comma", 0x002C, "comma"),
    ("period", 0x002E, "period dot fullstop"),
    ("slash", 0x002F, "slash forwardslash"),
    ("backslash", 0x005C, "backslash intlbackslash"),
    ("semicolon", 0x003B, "semicolon"),
    ("colon", 0x003A, "colon"),
    ("apostrophe", 0x0027, "quote apostrophe singlequote quoteright"),
    ("quotedbl", 0x0022, "quotedbl doublequote"),
    ("grave", 0x0060, "grave backquote backtick quoteleft"),
    ("asciitilde", 0x007E, "tilde asciitilde"),
    ("bracketleft", 0x005B, "bracketleft leftbracket openbracket"),
    ("bracketright", 0x005D, "bracketright rightbracket closebracket"),
    ("braceleft", 0x007B, "braceleft leftbrace"),
    ("braceright", 0x007D, "braceright rightbrace"),
    ("parenleft", 0x0028, "parenleft leftparen"),
    ("parenright", 0x0029, "parenright rightparen"),
    ("exclam", 0x0021, "exclam exclamation"),
    ("at", 0x0040, "at"),
    ("numbersign", 0x0023, "numbersign hash"),
    ("dollar", 0x0024, "dollar"),
    ("percent", 0x0025, "percent"),
    ("asciicircum", 0x005E, "asciicircum caret"),
    ("ampersand", 0x0026, "ampersand"),
    ("asterisk", 0x002A, "asterisk star"),
    ("bar", 0x007C, "bar pipe"),
    ("less", 0x003C, "less"),
    ("greater", 0x003E, "greater"),
    ("question", 0x003F, "question"),
    ("F1", 0xFFBE, "f1"),
    ("F2", 0xFFBF, "f2"),
    ("F3", 0xFFC0, "f3"),
    ("F4", 0xFFC1, "f4"),
    ("F5", 0xFFC2, "f5"),
    ("F6", 0xFFC3, "f6"),
    ("F7", 0xFFC4, "f7"),
    ("F8", 0xFFC5, "f8"),
    ("F9", 0xFFC6, "f9"),
    ("F10", 0xFFC7, "f10"),
    ("F11", 0xFFC8, "f11"),
    ("F12", 0xFFC9, "f12"),
    ("F13", 0xFFCA, "f13"),
    ("F14", 0xFFCB, "f14"),
    ("F15", 0xFFCC, "f15"),
    ("F16", 0xFFCD, "f16"),
    ("F17", 0xFFCE, "f17"),
    ("F18", 0xFFCF, "f18"),
    ("F19", 0xFFD0, "f19"),
    ("F20", 0xFFD1, "f20"),
    ("F21", 0xFFD2, "f21"),
    ("F22", 0xFFD3, "f22"),
    ("F23", 0xFFD4, "f23"),
    ("F24", 0xFFD5, "f24"),
    ("KP_0", 0xFFB0, "kp0 numpad0 num0"),
    ("KP_1", 0xFFB1, "kp1 numpad1 num1"),
    ("KP_2", 0xFFB2, "kp2 numpad2 num2"),
    ("KP_3", 0xFFB3, "kp3 numpad3 num3"),
    ("KP_4", 0xFFB4, "kp4 numpad4 num4"),
    ("KP_5", 0xFFB5, "kp5 numpad5 num5"),
    ("KP_6", 0xFFB6, "kp6 numpad6 num6"),
    ("KP_7", 0xFFB7, "kp7 numpad7 num7"),
    ("KP_8", 0xFFB8, "kp8 numpad8 num8"),
    ("KP_9", 0xFFB9, "kp9 numpad9 num9"),
)
_CODE_PREFIXES = ("digit", "key")  # W3C `code` values: Digit4, KeyQ
_SHIFT = ("Shift_L", "Shift_R")

MODIFIERS = frozenset(
    "Control_L Control_R Shift_L Shift_R Alt_L Alt_R Super_L Super_R Hyper_L ISO_Level3_Shift".split()
)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as X knows it: its keysym's name and value."""

    name: str
    keysym: int

    @property
    def is_modifier(self) -> bool:
        return self.name in MODIFIERS


def _fold(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").replace("_", "")


_BY_NAME = {
    word: Key(name, keysym) for name, keysym, words in _TABLE for word in (_fold(name), *words.split())
}
_BY_KEYSYM = {k.keysym: k for k in _BY_NAME.values()}


def character_keysym(character: str) -> int:
    """The keysym of one character (X11 protocol, appendix A: Latin-1 as is, else 0x01000000 + code)."""
    code = ord(character)
    if code in (0x0A, 0x0D):
        return 0xFF0D
    if code == 0x09:
        return 0xFF09
    return code if 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF else 0x01000000 | code


def key(name: str) -> Key:
    """Look up one key name.

    Raises:
        UnknownKey: nothing is called that; the message says what names look like.
    """
    if len(name) == 1 and name in _BY_NAME:  # a glyph such as the return arrow
        return _BY_NAME[name]
    if len(name) == 1 and (name.isprintable() or name in "\n\r\t"):
        keysym = character_keysym(name)
        return _BY_KEYSYM.get(keysym) or Key(name, keysym)
    folded = _fold(name)
    if folded in _BY_NAME:
        return _BY_NAME[folded]
    for prefix in _CODE_PREFIXES:
        rest = folded.removeprefix(prefix)
        if rest != folded and len(rest) == 1 and rest.isascii() and rest.isalnum():
            return Key(rest, ord(rest))
    raise UnknownKey(
        f"no key is called {name[:40]!r}; use names such as ENTER, ESC, CTRL, PAGEDOWN, F5, or one character",
        param="keys",
    )


def chord(names: Sequence[str]) -> tuple[Key, ...]:
    """Resolve a chord as pressed together: modifiers first, in the order given.

    "CTRL+C" as one name is split. Beside a modifier, a letter is taken in lower case unless SHIFT
    is among the keys, since models write CTRL+C and mean Control and the key c.

    Raises:
        UnknownKey: for any unknown name, an empty chord or more than MAX_CHORD keys; nothing of the
            chord is to be pressed then.
    """
    flat = [part for name in names for part in _split(name)]
    if not 1 <= len(flat) <= MAX_CHORD:
        raise UnknownKey(f"a chord has 1 to {MAX_CHORD} keys, not {len(flat)}", param="keys")
    keys = [key(name) for name in flat]
    held = [k for k in keys if k.is_modifier]
    if held and not any(k.name in _SHIFT for k in held):
        keys = [_lowered(k) for k in keys]
    return tuple(dict.fromkeys([*held, *(k for k in keys if not k.is_modifier)]))


def modifiers(names: Sequence[str] | None) -> tuple[Key, ...]:
    """The keys that an action's `keys` field holds down; empty for None or [].

    Raises:
        UnknownKey: an unknown name, or a key that is not a modifier.
    """
    if not names:
        return ()
    keys = chord(names)
    for k in keys:
        if not k.is_modifier:
            raise UnknownKey(
                f"{k.name!r} can't be held during a pointer action; use CTRL, SHIFT, ALT or META",
                param="keys",
            )
    return keys


def _split(name: str) -> list[str]:
    if len(name) < 2 or "+" not in name[1:]:
        return [name]
    head, _, last = name.rpartition("+")
    if not last:  # "ctrl++" is Control and plus
        head, last = head.removesuffix("+"), "+"
    return [*(part for part in head.split("+") if part), last]


def _lowered(k: Key) -> Key:
    low = k.name.lower()
    return Key(low, character_keysym(low)) if len(k.name) == 1 and len(low) == 1 else k
