"""Runs in a terminal: appends each line typed there, as JSON, to the file named, until it ends."""

import json
import os
import sys
import termios
import tty

saved = termios.tcgetattr(0)
tty.setraw(0)
sys.stdout.write("\x1b]0;raw terminal\x07")
sys.stdout.flush()
data = b""
with open(sys.argv[1], "w") as log:
    while piece := os.read(0, 65536):
        data += piece
        while b"\r" in data:
            line, data = data.split(b"\r", 1)
            print(json.dumps(line.decode("utf-8", "replace")), file=log, flush=True)
