"""`bodyd snapshot`: the home folder copied, put back and emptied from the command line, with progress."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bodyd.errors import ConfigError

if TYPE_CHECKING:
    from bodyd.client import BodyClient

Ask = Callable[["BodyClient"], Awaitable[Any]]
Call = Callable[[argparse.Namespace, Ask], Any]

TEXT = """\
Copy the home folder under a name, put a copy back, or begin with an empty home.

The home is what a body keeps: cookies, sign-ins, settings, files. The apps are ended meanwhile, the browser
gently so that it writes what it has, and begin again; unsaved work is lost. While somebody drives, the answer
is `busy`: wait, or `bodyd stop` first. Killed at any moment, the home is the old one or the new one, whole.
"""
EXAMPLES = """\
examples:
  bodyd snapshot create signed-in         keep the home as it is now
  bodyd snapshot list                     what is kept, how large, from when
  bodyd snapshot restore signed-in --yes  begin a run from it; what is in the home now is lost
  bodyd snapshot reset --yes              an empty home, as at the first start
  bodyd snapshot delete signed-in         make room
"""
LOOK_SECONDS = 0.25
_PHASES: dict[str, str] = {"ending_apps": "ending the apps", "copying": "copying"}


def furnish(command: argparse.ArgumentParser) -> None:
    """Its steps, and what they take."""
    command.description, command.epilog = TEXT, EXAMPLES
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    steps = command.add_subparsers(dest="what", required=True, metavar="WHAT")
    for what, text in (
        ("create", "Copy the home under a name that no snapshot has yet."),
        ("list", "Show the snapshots, oldest first."),
        ("restore", "Make the home what it was in a snapshot. What is in it now is lost."),
        ("delete", "Remove a snapshot. The home stays as it is, and nobody is disturbed."),
        ("reset", "Make the home an empty one. What is in it now is lost; snapshots stay."),
    ):
        step = steps.add_parser(what, help=text, description=text)
        if what not in ("list", "reset"):
            step.add_argument("name", help="letters, digits, '.', '_' and '-', at most 64")
        if what in ("restore", "reset"):
            step.add_argument("--yes", action="store_true", help="what is in the home now may be lost")


def run(args: argparse.Namespace, call: Call) -> int:
    """Carry it out. *call* holds one conversation with the daemon."""
    what = args.what
    if what in ("restore", "reset") and not args.yes:
        raise ConfigError("what is in the home now would be lost; add --yes if it may be")
    if what == "list":
        return _show(call(args, lambda client: client.snapshots()))
    if what == "delete":
        call(args, lambda client: client.delete_snapshot(args.name))
        print(f"{args.name}: deleted")
        return 0
    begun = time.monotonic()
    done = call(args, lambda client: _watched(client, _steps(args)[what], what))
    took = f"{time.monotonic() - begun:.1f} s; the apps begin again"
    if what == "reset":
        print(f"the home is empty, after {took}")
    else:
        verb = "kept" if what == "create" else "put back"
        print(f"{done['name']}: {done['files']} files, {done['bytes'] / 1e6:.1f} MB {verb} in {took}")
    return 0


def _steps(args: argparse.Namespace) -> dict[str, Ask]:
    return {
        "create": lambda client: client.create_snapshot(args.name),
        "restore": lambda client: client.restore_snapshot(args.name),
        "reset": lambda client: client.reset_home(),
    }


def _show(snapshots: list[dict[str, Any]]) -> int:
    if not snapshots:
        print("no snapshots; `bodyd snapshot create NAME` makes one")
    for one in snapshots:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["created_at"] / 1000))
        size = f"{one['bytes'] / 1e6:>9.1f} MB {one['files']:>7} files"
        print(f"{one['name']:<30} {when} {size}  browser {one['browser_version'] or 'none'}")
    return 0


async def _watched(client: BodyClient, step: Ask, what: str) -> Any:  # noqa: ANN401
    """Do it, and say how far it is: on a terminal as it goes on, otherwise once for each phase."""
    import trio

    result = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell, client, what)
        try:
            result = await step(client)
        except Exception as exc:
            result = exc
        nursery.cancel_scope.cancel(reason="it is done")
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    if isinstance(result, Exception):
        raise result
    return result


async def _tell(client: BodyClient, what: str) -> None:
    import trio

    terminal, told = sys.stdout.isatty(), ""
    while True:
        doing = await client.home_progress()
        if doing is not None and doing["what"] == what:
            phase = _PHASES[doing["phase"]]
            if terminal:
                count = f" {doing['files']} of {doing['of']} files" if doing["of"] else ""
                print(f"\r\x1b[K{phase} …{count}", end="", flush=True)
            elif phase != told:
                print(f"{phase} …", flush=True)
            told = phase
        await trio.sleep(LOOK_SECONDS)
