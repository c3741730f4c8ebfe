"""The words that every room shares: wire types, keys, geometry, receipts, ports.

Pure: no trio, no Xlib, no clock, no random. Adapters import this package and `bodyd.errors` alone.
"""
