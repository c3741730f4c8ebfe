"""`python -m bench [--only NAME]`: run every benchmark, print its table, keep it in bench/out/NAME.json.

A benchmark is a module of this package with `NAME` and `rows() -> list[dict]`. A row has "name", "value"
and "unit"; with a "bar" also "ok", whether the bar was met; with a "peer" ({"name", "value"}) the same
measured on something else in the same run. A peer that could not run has the value None and a "note".

The exit status is 1 if a benchmark crashed. A missed bar is printed, loudly, and is no crash: figures
depend on the machine, so they are read, not gated.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
OUT = HERE / "out"
HEAD = ["what", "value", "bar", "", "peer", "peer's value", "ratio"]
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, side by side with peers.")
    parser.add_argument("--only", metavar="NAME", help="run this one alone")
    parser.add_argument(
        "--markdown", action="store_true", help="print the kept tables again, measure nothing"
    )
    parser.add_argument("--list", action="store_true", help="name them, run none")
    args = parser.parse_args(argv)
    found = {module.NAME: module for module in discover()}
    if args.list:
        print("\n".join(sorted(found)))
        return 0
    if args.only is not None and args.only not in found:
        parser.error(f"no benchmark {args.only!r}; there are: {', '.join(sorted(found)) or 'none'}")
    chosen = [args.only] if args.only is not None else sorted(found)
    if args.markdown:
        print("\n\n".join("\n".join(markdown(name)) for name in chosen if (OUT / f"{name}.json").exists()))
        return 0
    print(machine())
    crashed = [name for name in chosen if not run(found[name])]
    if crashed:
        print(f"\ncrashed: {', '.join(crashed)}")
    return 1 if crashed else 0


def discover() -> Iterator[ModuleType]:
    """The modules of this package that are benchmarks; the others are theirs to import."""
    for info in pkgutil.iter_modules([str(HERE)]):
        if info.name != "__main__":
            module = importlib.import_module(f"bench.{info.name}")
            if hasattr(module, "NAME") and hasattr(module, "rows"):
                yield module


def run(module: ModuleType) -> bool:
    """Run one, print and keep its rows; False if it crashed."""
    summary = (module.__doc__ or "").strip().partition("\n")[0]
    print(f"\n== {module.NAME}: {summary}", flush=True)
    start = time.monotonic()
    try:
        rows = module.rows()
    except Exception:  # one crash must not hide the other figures
        traceback.print_exc()
        return False
    seconds = time.monotonic() - start
    print("\n".join(table(rows)))
    missed = [row["name"] for row in rows if row.get("ok") is False]
    print(f"{seconds:.1f} s" + (f"; BAR MISSED: {', '.join(missed)}" if missed else ""), flush=True)
    OUT.mkdir(exist_ok=True)
    kept = {"name": module.NAME, "machine": machine(), "seconds": round(seconds, 1), "rows": rows}
    (OUT / f"{module.NAME}.json").write_text(json.dumps(kept, indent=2) + "\n")
    return True


def table(rows: Sequence[Row]) -> list[str]:
    """Aligned lines: name, value, bar and verdict, peer, and how many times slower the peer is."""
    head = HEAD
    cells = [head, *_lines(rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    shown = [
        "  ".join(
            cell.rjust(width) if column in (1, 2, 5, 6) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return [shown[0], "-" * max(map(len, shown)), *shown[1:]]


def markdown(name: str) -> list[str]:
    """The same of the last run of *name*, as docs/reference/performance.md has it."""
    kept = json.loads((OUT / f"{name}.json").read_text())
    lines = [HEAD, ["---", "---:", "---:", "---", "---", "---:", "---:"], *_lines(kept["rows"])]
    return [f"Load {kept['machine'].partition('load ')[2].partition(',')[0]}.", ""] + [
        f"| {' | '.join(line)} |" for line in lines
    ]


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """The cells of each row; what a row shares with the one above, beside another peer, is said once."""
    found = [_cells(row) for row in rows]
    same = [a["name"] == b["name"] and bool(b.get("peer")) for a, b in pairwise(rows)]
    return found[:1] + [
        ["", "", *line[2:]] if again else line for line, again in zip(found[1:], same, strict=True)
    ]


def _cells(row: Row) -> list[str]:
    value, unit, peer = row["value"], row["unit"], row.get("peer") or {}
    verdict = "" if row.get("ok") is None else "ok" if row["ok"] else "MISSED"
    return [
        row["name"],
        _figure(value, unit),
        "" if row.get("bar") is None else str(row["bar"]),
        verdict,
        peer.get("name", ""),
        (_figure(peer.get("value"), unit) or peer.get("note", "")) if peer else "",
        ratio(value, peer.get("value")),
    ]


def _figure(value: float | str | None, unit: str) -> str:
    if value is None:
        return ""
    shown = f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else f"{value}"
    return f"{shown} {unit}".strip()


def ratio(ours: object, theirs: object) -> str:
    """How many of ours fit into one of theirs; empty where that is no question."""
    if isinstance(ours, int | float) and isinstance(theirs, int | float) and ours > 0:
        return f"{theirs / ours:.2g}x" if theirs < 10 * ours else f"{theirs / ours:.0f}x"
    return ""


def machine() -> str:
    """What the figures were taken on, for whoever reads them later."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {cores} cores, load {os.getloadavg()[0]:.1f}, {system}"


if __name__ == "__main__":
    sys.exit(main())
