"""Take more memory than there may be: argument, the bytes to take."""

import sys

held, wanted = [], int(sys.argv[1])
try:
    while sum(map(len, held)) < wanted:
        held.append(bytearray(b"x" * (16 << 20)))
    result = "done"
except MemoryError:
    held.clear()
    result = "MemoryError"
