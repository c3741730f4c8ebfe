"""Take the proxy's place, or stand before it: own listeners on its address, a relay, a nested network.

Argument: a loopback port of the host.
"""

import socket
import sys
import threading

from attempt import dialled, libc, tried


def listen(*options):
    taken = socket.socket()
    for option in options:
        taken.setsockopt(socket.SOL_SOCKET, option, 1)
    taken.bind(("127.0.0.1", 3128))
    taken.listen()


def relay(door):
    client, _ = door.accept()
    with client, socket.create_connection(("127.0.0.1", 3128), 10) as proxy:
        proxy.sendall(client.recv(4096))
        client.sendall(proxy.recv(4096))


with socket.create_server(("127.0.0.1", 8118)) as door:
    threading.Thread(target=relay, args=(door,)).start()
    with socket.create_connection(("127.0.0.1", 8118), 10) as client:
        client.sendall(b"CONNECT 127.0.0.1:" + sys.argv[1].encode() + b" HTTP/1.1\r\n\r\n")
        relayed = client.recv(4096)
result = {
    "listen": tried(listen),
    "listen with reuse": tried(listen, socket.SO_REUSEADDR, socket.SO_REUSEPORT),
    "relayed": relayed.decode().split(" ")[1],
    "nested network": tried(lambda: dialled(socket.AF_INET, ("127.0.0.1", 3128)))
    if libc.unshare(0x10000000 | 0x40000000) == 0 else "EPERM",
}  # fmt: skip
