"""Leave as much running as can be, say "up", and stay.

Argument: "bomb", "stubborn", "stopped" or "namespaces".
"""

import os
import signal
import sys
import time

from attempt import libc

kind = sys.argv[1]
signal.signal(signal.SIGTERM, signal.SIG_IGN)


def child():
    os.setsid()
    if kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "namespaces" and libc.unshare(0x10000000 | 0x20000000) == 0 and os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


for _ in range(20):
    if os.fork() == 0:
        child()
print("up", flush=True)
while kind == "bomb":
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
time.sleep(600)
result = None
