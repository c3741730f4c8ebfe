"""A local site with tasks to be done in it; its grader is reached outside the body only."""

from .grader import TASK, Verdict, grade
from .site import EGRESS, HOST, URL, Site, serve

__all__ = ["EGRESS", "HOST", "TASK", "URL", "Site", "Verdict", "grade", "serve"]
