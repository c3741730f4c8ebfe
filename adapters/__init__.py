"""Adapters: other protocols in front of a body. Each imports bodyd.contract and bodyd.errors alone."""
