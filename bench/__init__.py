"""Timings, side by side with peers in the same run; never a test (bench/__main__.py)."""
