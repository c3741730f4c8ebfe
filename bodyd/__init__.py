"""bodyd: one isolated desktop, one driver at a time, receipts that never lie."""

__version__ = "0.1.0"
