"""Finds the socket to the daemon and speaks on it by itself: MODE says how."""

import json
import os
import socket
import stat
import struct
import threading
import time

head = struct.Struct(">II")


def is_socket(number):
    try:
        return number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


fd = next(n for n in range(256) if is_socket(n))
wire = socket.socket(fileno=os.dup(fd))
ui = globals()["ui"]


def frame(value, tail=b""):
    text = json.dumps(value).encode()
    return head.pack(len(text), len(tail)) + text + tail


MODE = globals()["MODE"]  # set by whoever runs it
CLICK = {"op": "inputs", "args": {"inputs": [{"type": "click", "x": 400, "y": 300}]}}

if MODE == "garbage":
    wire.sendall(os.urandom(4096))
elif MODE == "huge":
    wire.sendall(head.pack(2**31, 2**31))
elif MODE == "another call":
    wire.sendall(frame({"call": 999, **CLICK}))
elif MODE == "no object":
    wire.sendall(frame([1, 2, 3]))
elif MODE == "deep":
    text = b"[" * 100_000
    wire.sendall(head.pack(len(text), 0) + text)
elif MODE == "flood":
    while True:
        wire.sendall(frame({"call": ui._line.call, "op": "text", "text": "x"}))
elif MODE == "late":

    def late(call=ui._line.call):
        time.sleep(0.3)
        wire.sendall(frame({"call": call, **CLICK}))
        wire.sendall(frame({"call": call + 1, **CLICK}))

    threading.Thread(target=late).start()
"sent"
