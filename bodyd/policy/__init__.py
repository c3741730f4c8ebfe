"""What may be done without asking, what must be approved, what only a person may do."""
