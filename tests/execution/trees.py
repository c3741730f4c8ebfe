"""Commands that do not want to end."""

from __future__ import annotations

TREE = (
    "trap '' TERM; for i in 1 2 3 4; do setsid bash -c \"trap '' TERM; sleep 600\" & done; echo up; sleep 600"
)
BOMB = (
    "python3 -c 'import os\nwhile True:\n  try: os.fork()\n"
    '  except OSError:\n    try: os.write(1, b"full")\n    except OSError: pass\''
)
