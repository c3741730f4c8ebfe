"""Ask the proxy for what is not on the list, in every disguise; and for what is, to know that it answers.

Arguments: a name on the list (mapped to a socket of the host), a loopback port of the host.
"""

import socket
import sys

name, port = sys.argv[1].encode(), sys.argv[2].encode()
hosts = [
    b"example.org", b"127.0.0.1", b"127.1", b"2130706433", b"0x7f000001", b"0177.0.0.1", b"[::1]",
    b"[::ffff:127.0.0.1]", b"[64:ff9b::7f00:1]", b"localhost", b"10.0.0.1", b"169.254.169.254",
    name + b".", name + b"\0.evil.test", name + b".evil.test", b"evil." + name, name + b"@127.0.0.1",
    b"user:secret@" + name, b"user@" + name, name + b"%00", name + b"%2e", b"*." + name, b"",
]  # fmt: skip


def asked(head, answers=1):
    with socket.create_connection(("127.0.0.1", 3128), 10) as proxy:
        proxy.sendall(head + b"\r\nHost: " + name + b"\r\n\r\n")
        said = proxy.recv(64)
    return int(said.split(b" ")[1]) if said.startswith(b"HTTP/1.1 ") else 0


result = {
    "tunnels": {
        repr(h): asked(b"CONNECT " + h + b":" + p + b" HTTP/1.1") for h in hosts for p in (b"443", port)
    },
    "requests": {repr(h): asked(b"GET http://" + h + b":" + port + b"/ HTTP/1.1") for h in hosts},
    "ports": {
        p: asked(b"CONNECT " + name + b":" + p.encode() + b" HTTP/1.1") for p in ("22", "25", "443", "0")
    },
    "schemes": {
        s: asked(b"GET " + s.encode() + b"://" + name + b"/ HTTP/1.1") for s in ("ftp", "file", "https")
    },
    "methods": asked(b"GET / HTTP/1.1"),
    "listed": asked(b"GET http://" + name.upper() + b"/ HTTP/1.1"),
}
