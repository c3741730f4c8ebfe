"""`python -m bodyd` is the `bodyd` command."""

from bodyd.cli import main

main()
