"""The live view: one encode for many watchers, and a person's hands on the body."""
