"""Get at the X server's socket: replace it, add to its folder, find it where there should be none."""

import os
import socket

from attempt import dialled, tried

folder, path = "/tmp/.X11-unix", "/tmp/.X11-unix/X0"
result = {
    "there": os.path.exists(path),
    "display": os.environ.get("DISPLAY"),
    "authority": os.environ.get("XAUTHORITY"),
    "unlink": tried(os.unlink, path),
    "swap": tried(os.symlink, "/tmp/other", path),
    "rename": tried(os.rename, path, "/tmp/X0"),
    "rename folder": tried(os.rename, folder, "/tmp/elsewhere"),
    "add": tried(os.symlink, "/tmp/x", f"{folder}/X1"),
    "open": tried(open, path, "w"),
    "chmod": tried(os.chmod, path, 0o777),
    "abstract": tried(dialled, socket.AF_UNIX, "\0/tmp/.X11-unix/X0"),
    "tcp": tried(dialled, socket.AF_INET, ("127.0.0.1", 6000)),
}
