"""What runs in the code tool's sandbox: executed by the host's Python, away from the daemon.

The standard library alone, but for Pillow and numpy where code asks for them, and nothing of bodyd's. What
comes from here is believed by nobody: code.py and code_ui.py judge every frame.
"""
