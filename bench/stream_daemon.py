"""The live view as a process of its own, over an X server that runs already: `python -m bench.stream_daemon`.

Reads {socket_path, cookie, uid, place} from standard input, prints {port, token}, ends with its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio

from bodyd.contract.lease import Scope
from bodyd.contract.ports import XEndpoint
from bodyd.daemon import SWITCH_SECONDS
from tests.display.world import XServer
from tests.stream.conftest import open_world


async def main(given: dict[str, Any]) -> None:
    endpoint = XEndpoint(given["socket_path"], bytes.fromhex(given["cookie"]), given["uid"])
    server = cast(XServer, SimpleNamespace(endpoint=endpoint))
    async with open_world(server, Path(given["place"])) as world:
        print(json.dumps({"port": world.port, "token": world.services.tokens.token(Scope.OWNER)}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_SECONDS)
    trio.run(main, json.loads(sys.stdin.readline()))
