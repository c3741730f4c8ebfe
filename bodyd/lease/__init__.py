"""One driver at a time: a pure machine (machine.py) in a thin Trio shell (manager.py)."""
