"""A local site with tasks to be done in it; its grader is reached outside the body only."""
