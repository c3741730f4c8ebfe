"""The one door: admission, dispatch and verification of every input, whoever sends it."""
