"""The demo: a model works on a small site through the public API, and the site's grader judges.

A client like any other: it knows `bodyd.client` and nothing behind it. The model and the site are
found by entry point (groups `bodyd.upstreams` and `bodyd.sites`), so bodyd depends on neither.
"""

from .loop import run, run_demo
from .parts import Site, Verdict, load_upstream

__all__ = ["Site", "Verdict", "load_upstream", "run", "run_demo"]
