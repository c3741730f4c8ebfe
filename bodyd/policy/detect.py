"""The judgement of one action, by what is known of where it would land. Pure.

Counterparts: packs.py has the rules, scene.py what is known, scripts.py judges commands and code. Nothing
asks this yet; whoever does must make the scene anew for each action of a batch, right before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bodyd.contract import actions as a
from bodyd.contract import keys as key_names
from bodyd.contract.elements import Element, Target
from bodyd.contract.ports import Verdict

from . import names, pages
from .leaks import kept_file, leak
from .lexicon import ANY_NUMBER
from .normal import Words, all_readings
from .packs import Book, Chapter, Kind
from .scene import CLEAR, Code, Command, Finding, Scene, Upload, by_chapter, of_kind
from .scripts import judge_code, judge_command

Judged = a.Action | Upload | Command | Code
_HELD = frozenset(("Control_L", "Control_R", "Alt_L", "Alt_R", "Super_L", "Super_R", "Hyper_L"))
_ALT = frozenset(("Alt_L", "Alt_R"))
_SHIFT = frozenset(("Shift_L", "Shift_R"))
_RETURNS = frozenset(("Return", "KP_Enter"))
_PASTES = (
    {"Control_L", "v"},
    {"Shift_L", "Insert"},
    {"Control_L", "Shift_L", "V"},
    {"Control_L", "Shift_L", "v"},
)
_STEERS = frozenset("Left Right Up Down Home End Page_Up Page_Down".split())


def detect(book: Book, action: Judged, scene: Scene) -> Finding:
    """The strictest finding on *action*, as the owner's domains have it; CLEAR where there is none."""
    ends = [scene.target, scene.drop] if isinstance(action, a.Drag) and scene.drop else [scene.target]
    settled = (
        replace(f, verdict=max((pages.settle(book, f, at) for at in ends), key=pages.STRICTNESS.index))
        for f in _judge(book, action, scene)
    )
    found = max(settled, key=lambda f: pages.STRICTNESS.index(f.verdict), default=CLEAR)
    return CLEAR if found.verdict is Verdict.ALLOW else found


def _judge(book: Book, action: Judged, scene: Scene) -> Iterator[Finding]:
    match action:
        case Command(text=text):
            yield from judge_command(book, text)
        case Code(text=text):
            yield from judge_code(book, text)
        case Upload():
            yield from _uploaded(book, action, scene)
        case a.Drag():
            yield from _pressed(book, scene)
            yield from _dropped(book, scene)
        case a.Keypress(keys=chord) | a.Hold(keys=chord):
            yield from _keys(book, chord, scene)
        case a.Type(text=text) | a.Paste(text=text):
            yield from _written(book, text, scene)
        case a.Move() | a.Scroll() | a.Wait() | a.TakeScreenshot():
            return
        case _:
            yield from _clicked(book, action.button, scene)


def _clicked(book: Book, button: a.Button, scene: Scene) -> Iterator[Finding]:
    if button in ("middle", "wheel") and names.takes_text(scene.target):
        yield from _written(book, scene.clipboard, scene)  # X pastes the selection there
    if button in ("left", "middle", "wheel"):
        yield from _pressed(book, scene)


# -- what is pressed -----------------------------------------------------------------------------


def _pressed(book: Book, scene: Scene) -> Iterator[Finding]:
    target = scene.target
    yield from _in_captcha(book, scene)
    if names.is_field(target):
        return
    called = list(names.labels(target)) if target else []
    yield from _framed(book, target)
    yield from _named(book, called, pages.kinds(book, scene))
    if target is not None:
        yield from _answered(book, target, called, scene)
    if names.is_bare(target) or (target is not None and not target.complete):
        yield from _unknown(book, scene, "unnamed", "what would be pressed can't be known")


def _in_captcha(book: Book, scene: Scene) -> Iterator[Finding]:
    urls = pages.addresses(scene.target)
    for chapter in book.chapters:
        if chapter.kind is not Kind.CAPTCHA:
            continue
        if any(pages.framed(chapter, url) for url in urls):
            yield by_chapter(chapter, "frames", pages.host_of(urls[0]))
        if pages.is_captcha(chapter, scene):
            yield by_chapter(chapter, "exact_titles", scene.window_title)


def _framed(book: Book, target: Target | None) -> Iterator[Finding]:
    for chapter in book.chapters:
        for url in pages.addresses(target):
            if chapter.kind is not Kind.CAPTCHA and pages.framed(chapter, url):
                yield by_chapter(chapter, "frames", pages.host_of(url))


def _named(book: Book, called: list[str], kinds: tuple[Chapter, ...]) -> Iterator[Finding]:
    said = all_readings(called)
    for chapter in book.chapters:
        if part := names.pressed_by(chapter, said, book.fillers):
            yield by_chapter(chapter, part, called[0])
    here = {chapter.kind for chapter in kinds}
    for chapter in book.chapters:
        if chapter.kind in here and _any_is(chapter, "on_page", said, book.fillers):
            # Of payments and deletions many steps are called so, of which one does it.
            verdict = chapter.verdict if chapter.kind is Kind.SIGN_IN else Verdict.APPROVE
            yield by_chapter(chapter, "on_page", called[0], verdict=verdict)


def _any_is(chapter: Chapter, part: str, said: list[Words], fillers: frozenset[str]) -> bool:
    return any(chapter.lists[part].is_all(r, fillers) for r in said)


def _answered(book: Book, target: Target, called: list[str], scene: Scene) -> Iterator[Finding]:
    """Any answer to a dialog that asks for such a thing, but a plain no."""
    title = names.dialog(target)
    if title is None:
        return
    asked, answers = all_readings((title, scene.says)), all_readings(called)
    # "Cancel" is no plain no to "Cancel your order?".
    plain = any(book.no.is_all(r, book.fillers) for r in answers) and not any(
        any(book.no.spans(r)) for r in asked
    )
    for chapter in book.chapters:
        lists = chapter.lists
        if not plain and any(lists["dialogs"].among(r, lists["unless"]) for r in asked):
            unsure = Verdict.APPROVE if not answers else None
            yield by_chapter(chapter, "dialogs", title or scene.says, verdict=unsure)


def _unknown(book: Book, scene: Scene, part: str, why: str) -> Iterator[Finding]:
    """An approval, where the page or something in view is of a kind; nothing elsewhere."""
    kinds = pages.kinds(book, scene)
    for chapter in kinds:
        yield by_chapter(chapter, part, "", why=why, verdict=Verdict.APPROVE)
    if not kinds:
        yield from _in_view(book, scene, part, why)


def _in_view(book: Book, scene: Scene, part: str, why: str) -> Iterator[Finding]:
    for element in scene.others:
        if chapter := _stops(book, element):
            yield by_chapter(chapter, part, element.name, why=why, verdict=Verdict.APPROVE)
            return


def _stops(book: Book, element: Element) -> Chapter | None:
    if not names.is_control(element):
        return None
    said = [r for r in all_readings([element.name]) if not book.openers.isdisjoint((*r, ANY_NUMBER))]
    return next((c for c in book.chapters if names.pressed_by(c, said, book.fillers)), None)


# -- what is written -----------------------------------------------------------------------------


def _written(book: Book, text: str, scene: Scene) -> Iterator[Finding]:
    target = scene.target
    yield from _in_captcha(book, scene)
    yield from _asked_for(book, target)
    yield from _leaked(book, text, target)
    if target is not None and target.element is not None and target.element.role == "terminal":
        yield from judge_command(book, text)
    if not names.takes_text(target):
        if any(c in " \n\r" for c in text):
            yield from _pressed(book, scene)
        elif names.is_bare(target):
            yield from _unknown(book, scene, "unnamed", "what would be written to can't be known")
    elif any(c in "\n\r" for c in text):
        yield from _submitted(book, scene)
    if "\t" in text:
        yield from _tabbed(book, scene)
    if target is not None and names.dialog(target) is not None and kept_file(book.data, [text]):
        yield of_kind(Kind.DATA, "files", text)


def _asked_for(book: Book, target: Target | None) -> Iterator[Finding]:
    """A field that is for a password, a code, a card or a CAPTCHA's answer."""
    if target is None:
        return
    yield from _framed(book, target)
    about, marks = all_readings(names.about(target)), all_readings(names.marks(target))
    claimed = {f"{key}={value}" for key, value in target.attributes}
    role = target.element.role if target.element else ""
    for chapter in book.chapters:
        lists, section = chapter.lists, chapter.section
        if role in section.roles or claimed & set(section.attributes):
            yield by_chapter(chapter, "roles", "")
        elif any(lists["fields"].among(r, lists["unless"]) for r in about):
            yield by_chapter(chapter, "fields", next(names.about(target)))
        elif any(any(lists["marks"].spans(r)) for r in marks):
            yield by_chapter(chapter, "marks", "")


def _leaked(book: Book, text: str, target: Target | None) -> Iterator[Finding]:
    """What was in the field before counts, too: a number may be written in pieces."""
    before = (target.element.value or "") if target and target.element else ""
    hosts = [pages.host_of(url) for url in pages.addresses(target)]
    if what := leak(book.data, text, hosts) or leak(book.data, before + text, hosts):
        yield of_kind(Kind.DATA, "text", what)


def _tabbed(book: Book, scene: Scene) -> Iterator[Finding]:
    """What follows a tab goes to a field that is not known."""
    why = "a tab moves on to a field that can't be known"
    yield from _unknown(book, scene, "tab", why)
    for element in scene.others:
        for finding in _asked_for(book, Target(element)) if element.role in names.FIELDS else ():
            yield Finding(Verdict.APPROVE, finding.rule, finding.kind, f"{why}: {finding.words}")


def _submitted(book: Book, scene: Scene) -> Iterator[Finding]:
    """Enter in a field sends its form."""
    target = scene.target
    assert target is not None
    assert target.element is not None
    yield from _asked_for(book, target)
    if "multi_line" in target.element.states:
        return
    if scene.default is not None:
        yield from _named(book, [scene.default.name], pages.kinds(book, scene))
        return
    why = "what Enter sends can't be known"
    for chapter in pages.kinds(book, scene):
        yield by_chapter(chapter, "enter", "", why=why, verdict=Verdict.APPROVE)
    if names.attribute(target, "text-input-type") != "search":
        yield from _in_view(book, scene, "enter", why)


# -- by the keyboard -----------------------------------------------------------------------------


def _keys(book: Book, chord: tuple[str, ...], scene: Scene) -> Iterator[Finding]:
    pressed = key_names.chord(chord)
    held = {k.name for k in pressed if k.is_modifier}
    field = names.takes_text(scene.target)
    role = scene.target.element.role if scene.target and scene.target.element else ""
    if {_left(k.name) for k in pressed} in _PASTES:
        yield from _written(book, scene.clipboard, scene)
    if not field:
        yield from _by_chord(book, pressed, scene)
    for k in pressed:
        character = _character(k)
        if held & _HELD:
            if character and (held & _ALT):
                yield from _access_key(book, scene)
            # Control and Enter send a form, or open a link elsewhere.
            if k.name in _RETURNS and field:
                yield from _submitted(book, scene)
            elif (k.name in _RETURNS or character == " ") and not field:
                yield from _pressed(book, scene)
        elif k.name in _RETURNS:
            yield from _written(book, "\n", scene)
        elif k.name in _STEERS and role in names.SLIDERS:
            yield from _pressed(book, scene)
        elif character:
            yield from _written(book, character, scene)
            if role in names.MENUS and character != " ":
                yield from _access_key(book, scene)


def _left(name: str) -> str:
    return name.replace("_R", "_L") if name in key_names.MODIFIERS else name


def _character(k: key_names.Key) -> str:
    """What a key writes; "" for one that writes nothing. The number pad writes, too."""
    if 0xFFAA <= k.keysym <= 0xFFB9:
        return chr(k.keysym - 0xFF80)
    if k.keysym >= 0x01000000:
        return chr(k.keysym - 0x01000000)
    return chr(k.keysym) if k.keysym <= 0xFF else ""


def _access_key(book: Book, scene: Scene) -> Iterator[Finding]:
    yield from _unknown(book, scene, "access_key", "what an access key presses can't be known")


def _by_chord(book: Book, pressed: tuple[key_names.Key, ...], scene: Scene) -> Iterator[Finding]:
    chord = {_left(k.name) for k in pressed}
    for chapter in book.chapters:
        for written in chapter.section.keys:
            if {_left(k.name) for k in key_names.chord((written,))} == chord:
                yield by_chapter(chapter, "keys", written)


# -- what is given away --------------------------------------------------------------------------


def _dropped(book: Book, scene: Scene) -> Iterator[Finding]:
    if scene.drop is None:
        return
    yield from _asked_for(book, scene.drop)
    yield from _leaked(book, scene.clipboard, scene.drop)
    called = list(names.labels(scene.drop))
    said = all_readings(called)
    for chapter in book.chapters:
        if _any_is(chapter, "drops", said, book.fillers):
            yield by_chapter(chapter, "drops", called[0])


def _uploaded(book: Book, upload: Upload, scene: Scene) -> Iterator[Finding]:
    if name := kept_file(book.data, upload.names):
        yield of_kind(Kind.DATA, "files", name)
    yield from _leaked(book, upload.sample, scene.target)
