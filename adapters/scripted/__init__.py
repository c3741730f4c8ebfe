"""A scripted model that finds its targets in the pixels: the demo's, and the tests'."""

from .model import ScriptedUpstream

__all__ = ["ScriptedUpstream"]
