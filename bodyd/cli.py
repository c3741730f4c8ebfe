"""`bodyd`: the command line. Each subcommand is one function; errors say what to do."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodyd import __version__, cli_snapshots
from bodyd.config import Config, load
from bodyd.errors import BodydError, ConfigError

if TYPE_CHECKING:
    from bodyd.client import BodyClient

EPILOG = """\
a first look:
  bodyd doctor            what this machine lacks, and the fix
  bodyd demo              a body, a scripted model, honest receipts
  bodyd up                a body that serves until Ctrl-C
  bodyd screenshot a.png  what it shows now
"""


def main(argv: Sequence[str] | None = None) -> None:
    """The entry point of the `bodyd` command; exits with the command's status."""
    args = _parser().parse_args(argv)
    try:
        status = args.run(args)
        sys.stdout.flush()
    except BodydError as exc:
        print(f"bodyd: {exc.message}", file=sys.stderr)
        status = 2 if isinstance(exc, ConfigError) else 1
    except KeyboardInterrupt:
        status = 130
    except BaseExceptionGroup as group:  # it came while a nursery was open
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        status = 130
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bodyd",
        description="One isolated Linux desktop, one driver at a time, receipts that never lie.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bodyd {__version__}")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration (default: /etc/bodyd/bodyd.toml if it exists)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add("up", _up, "Start the daemon and its body, and serve until Ctrl-C.")
    gateway = add("gateway", _gateway, "Serve the Responses gateway alone, over the body of another daemon.")
    gateway.add_argument(
        "--body", required=True, metavar="URL", help="the other daemon: its URL, or the path of its socket"
    )
    gateway.add_argument(
        "--token-file", type=Path, required=True, metavar="FILE", help="has a driver's token of that daemon"
    )
    demo = add("demo", _demo, "Start a body and a small site, and let a scripted model work on it.")
    demo.add_argument("--seed", type=int, default=1, help="lays out, colours and scales the site (default 1)")
    demo.add_argument("--panel-open", action="store_true", help="start with the Filters panel already open")
    demo.add_argument("--serve", action="store_true", help="go on serving afterwards, until Ctrl-C")
    demo.add_argument("--out", type=Path, default=Path("demo-out"), help="where before.png and after.png go")
    status = add("status", _status, "Say who drives, and how the body is.")
    status.add_argument("--json", action="store_true", help="the whole answer of GET /v1/status")
    shot = add("screenshot", _screenshot, "Save what the body shows as a PNG.")
    shot.add_argument("file", type=Path, help="where to write it; - for standard output")
    shot.add_argument("--cursor", action="store_true", help="draw the pointer in")
    watch = add("watch", _watch, "Follow the body's screen, and record it if asked to, until Ctrl-C.")
    watch.add_argument("--record", type=Path, metavar="FILE", help="write an MP4 (needs the extra `video`)")
    watch.add_argument("--seconds", type=float, metavar="N", help="end by itself after so long")
    doctor = add("doctor", _doctor, "Probe whether a body can run here, and say the fix for what is missing.")
    doctor.add_argument("--json", action="store_true", help="for programs")
    token = add("token", _token, "Show a bearer token, or print a one-use link to the console.")
    token.add_argument(
        "what",
        choices=["owner", "driver", "viewer", "link"],
        help="a scope's token, or `link` for a console link",
    )
    stop = add(
        "stop", _stop, "Stop the driver at once: keys up, nothing more is sent until the owner resumes."
    )
    stop.add_argument(
        "--reason", default="stopped from the command line", help="for the audit and the driver"
    )
    stop_key = add(
        "stop-key", _stop_key, "On your own desktop: stop the body at a key, whatever window has the focus."
    )
    stop_key.add_argument("--key", default="ctrl+alt+esc", help="keys joined by + (default ctrl+alt+esc)")
    stop_key.add_argument(
        "--body", metavar="URL", help="a daemon elsewhere: its URL (default: this machine's own)"
    )
    stop_key.add_argument(
        "--token-file", type=Path, metavar="FILE", help="has a token of that daemon, of scope driver or owner"
    )
    add("resume", _resume, "Let drivers in again after a stop or a pause.")
    recover = add("recover", _recover, "Bring the body out of recovery_required.")
    recover.add_argument(
        "--step",
        type=int,
        choices=[1, 2, 3],
        default=1,
        help="1: release all keys and buttons, read back (default); 2: new connections; "
        "3: restart the display (apps are lost)",
    )
    snapshot = add("snapshot", _snapshot, "Copy the home folder under a name, put one back, or empty it.")
    cli_snapshots.furnish(snapshot)
    egress = add("egress", _egress, "Show what the body reached and was denied, or read the lists again.")
    egress.add_argument("what", choices=["show", "reload"])
    audit = add("audit", _audit, "Verify the audit's hash chain, or show its end.")
    audit.add_argument("what", choices=["verify", "tail"])
    audit.add_argument("-n", type=int, default=20, help="how many entries `tail` shows (default 20)")
    audit.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="SEQ:HASH",
        help="a head of the chain that was kept elsewhere; `verify` then also finds a cut-off end",
    )
    return parser


def _config(args: argparse.Namespace) -> Config:
    return load(args.config)


def _say(text: str) -> None:
    print(text, flush=True)


def _up(args: argparse.Namespace) -> int:
    from bodyd import daemon

    return daemon.run(_config(args), report=_say, load=lambda: _config(args))


def _gateway(args: argparse.Namespace) -> int:
    from bodyd.http import alone

    return alone.run(_config(args), body=args.body, token_file=args.token_file, report=_say)


def _demo(args: argparse.Namespace) -> int:
    from bodyd import daemon

    return daemon.run_demo(
        _config(args), seed=args.seed, panel_open=args.panel_open, stay=args.serve, out=args.out, report=_say
    )


def _call(args: argparse.Namespace, ask: Callable[[BodyClient], Any], scope: str = "owner") -> Any:  # noqa: ANN401
    """Run one conversation with the running daemon over its unix socket."""
    import trio

    from bodyd.client import BodyClient
    from bodyd.http.tokens import read_token

    config = _config(args)

    async def talk() -> Any:  # noqa: ANN401
        token = read_token(config.state / "private", scope)
        async with BodyClient(socket_path=config.api_socket, token=token) as client:
            return await ask(client)

    return trio.run(talk)


def _status(args: argparse.Namespace) -> int:
    status = _call(args, lambda client: client.status())
    if args.json:
        print(json.dumps(status, indent=2))
        return 0
    lease = status["lease"]
    print(f"{'body':<15} {status['body_id']}  {status['display']['width']}x{status['display']['height']}")
    print(
        f"lease    {lease['state']}  epoch {lease['epoch']}"
        + (f"  ({lease['reason']})" if lease["reason"] else "")
    )
    if lease["claim"]:
        print(f"{'driver':<15} {lease['claim']['kind']}  {lease['claim']['conversation_id']}")
    for name, part in status["components"].items():
        print(f"{name:<15} {part['state']}")
    return 0


def _screenshot(args: argparse.Namespace) -> int:
    from bodyd.contract.screenshots import ScreenshotRequest

    async def ask(client: BodyClient) -> bytes:
        shot = await client.screenshot(ScreenshotRequest(cursor=args.cursor))
        return await client.image(shot.screenshot_id)

    png: bytes = _call(args, ask)
    if str(args.file) == "-":
        sys.stdout.buffer.write(png)
    else:
        try:
            args.file.write_bytes(png)
        except OSError as exc:
            raise ConfigError(f"{args.file}: {exc.strerror}; name a file that can be written") from exc
        print(f"{args.file}: {len(png)} bytes")
    return 0


def _watch(args: argparse.Namespace) -> int:
    from bodyd import cli_watch

    _call(args, lambda client: cli_watch.follow(client, args.record, args.seconds))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from bodyd.desktop import doctor

    return doctor.main(_config(args), as_json=args.json)


def _token(args: argparse.Namespace) -> int:
    from bodyd.http.tokens import read_token

    if args.what == "link":
        print(_call(args, lambda client: client.console_link()))
    else:
        print(read_token(_config(args).state / "private", args.what))
    return 0


def _stop(args: argparse.Namespace) -> int:
    view = _call(args, lambda client: client.stop(reason=args.reason))
    print(f"lease {view.state}, epoch {view.epoch}; `bodyd resume` lets drivers in again")
    return 0


def _stop_key(args: argparse.Namespace) -> int:
    from bodyd import cli_stop_key

    def listen(client: BodyClient) -> Any:  # noqa: ANN401
        return cli_stop_key.listen(client, args.key, f"stop key {args.key}", _say)

    if (args.body is None) != (args.token_file is None):
        raise ConfigError("--body and --token-file go together: a daemon elsewhere, and its token")
    if args.body is None:
        _call(args, listen)
        return 0

    import trio

    from bodyd.client import BodyClient

    async def talk() -> None:
        try:
            token = args.token_file.read_text().strip()
        except OSError as exc:
            raise ConfigError(f"{args.token_file}: {exc.strerror}") from exc
        async with BodyClient(url=args.body, token=token) as client:
            await listen(client)

    trio.run(talk)
    return 0


def _resume(args: argparse.Namespace) -> int:
    view = _call(args, lambda client: client.resume())
    print(f"lease {view.state}, epoch {view.epoch}")
    return 0


def _recover(args: argparse.Namespace) -> int:
    view = _call(args, lambda client: client.recover(step=args.step))
    print(f"lease {view.state}, epoch {view.epoch}")
    return 0 if view.state != "recovery_required" else 1


def _snapshot(args: argparse.Namespace) -> int:
    return cli_snapshots.run(args, _call)


def _egress(args: argparse.Namespace) -> int:
    if args.what == "reload":
        rules = _call(args, lambda client: client.reload_egress())["rules"]
        print("read again; rules: " + ", ".join(f"{name} {count}" for name, count in rules.items()))
        return 0
    for name, seen in _call(args, lambda client: client.egress()).items():
        if isinstance(seen, dict):
            print(f"{name}: {seen['rules']} rules, {seen['open']} connections open")
            for verb in ("allowed", "denied"):
                for host, count in seen[verb].items():
                    print(f"  {verb} {count:>6}  {host}")
    return 0


def _audit(args: argparse.Namespace) -> int:
    from bodyd.journal import audit

    try:
        return audit.main(
            _config(args).state / "private", what=args.what, count=args.n, checkpoints=args.checkpoint
        )
    except ValueError as exc:
        raise ConfigError(f"--checkpoint: {exc}") from exc
