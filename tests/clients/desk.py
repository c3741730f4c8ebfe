"""A client's own computer and shell, for SDKs that know no Trio: the body over its API, and this process."""

import subprocess
import threading

import trio

from bodyd.client import BodyClient


class Desk:
    """Acts under one lease, taken at the first call; `executed` has all that it did."""

    def __init__(self, url, token):
        self._where = {"url": url, "token": token}
        self._ready, self._lease = threading.Event(), None
        self.executed = []

    def act(self, actions):
        """Carry out a batch of actions (objects or dicts); the screen after it, as base64 of a PNG."""
        if self._lease is None:
            threading.Thread(target=self._thread, daemon=True).start()
            self._ready.wait()
        plain = [action if isinstance(action, dict) else action.to_dict() for action in actions]
        self.executed += [action["type"] for action in plain]
        item = {
            "type": "computer_call",
            "id": "cu",
            "call_id": "call",
            "status": "completed",
            "actions": plain,
        }
        result = trio.from_thread.run(self._lease.computer_call, item, trio_token=self._token)
        assert all(receipt.outcome != "failed" for receipt in result.receipts), result.receipts
        return result.item["output"]["image_url"].removeprefix("data:image/png;base64,")

    def run(self, command):
        """Run a command in this process's folder: what a shell_call_output says of it."""
        self.executed.append(command)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        outcome = {"type": "exit", "exit_code": done.returncode}
        return {"stdout": done.stdout, "stderr": done.stderr, "outcome": outcome}

    def answer(self, item):
        """Carry out a computer_call or a shell_call; its output, as an input item."""
        if item.type == "computer_call":
            output = picture(self.act(item.actions))
        else:
            output = [self.run(command) for command in item.action.commands]
        return {"type": f"{item.type}_output", "call_id": item.call_id, "output": output}

    def close(self):
        """Give the body back."""
        if self._lease is not None:
            trio.from_thread.run(self._lease.release, trio_token=self._token)

    def _thread(self):
        try:
            trio.run(self._serve)
        finally:
            self._ready.set()

    async def _serve(self):
        async with BodyClient(**self._where) as client:
            self._token = trio.lowlevel.current_trio_token()
            self._lease = await client.acquire("a-clients-own-desk", wait_ms=10_000)
            self._ready.set()
            await trio.sleep_forever()


def picture(image):
    """A screenshot as the output of a computer_call."""
    return {
        "type": "computer_screenshot",
        "image_url": f"data:image/png;base64,{image}",
        "detail": "original",
    }
