"""A body of another daemon, and its shell, behind the same ports as our own: over its HTTP API.

Whoever asks here, there it is the token that the client has: the other daemon judges that one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from bodyd.client import BodyClient, ClientLease
from bodyd.contract.actions import InputRequest
from bodyd.contract.acts import Act, ActRequest, ClipboardRequest, ClipboardText, LaunchRequest, ResizeRequest
from bodyd.contract.inventory import Inventory
from bodyd.contract.lease import AcquireRequest, Grant, HolderKind, LeaseState, LeaseView
from bodyd.contract.ports import Caller, ProcessChunk, ProcessResult
from bodyd.contract.receipts import Receipt
from bodyd.contract.screenshots import Screenshot, ScreenshotRequest
from bodyd.contract.shell import checked
from bodyd.errors import Forbidden

Json = dict[str, Any]


class RemoteBody:
    """Implements contract.ports.BodyPort, for what a gateway needs: the lease, looking, input.

    The rest is refused here, and asked of the body's own daemon.
    """

    def __init__(self, client: BodyClient) -> None:
        self._client = client

    async def status(self) -> Json:
        return await self._client.status()

    async def acquire(
        self, request: AcquireRequest, *, caller: Caller, kind: HolderKind = HolderKind.AGENT
    ) -> Grant:
        lease = await self._client.acquire(
            request.conversation_id, ttl_ms=request.ttl_ms, wait_ms=request.wait_ms
        )
        return Grant(lease_token=lease.token, epoch=lease.epoch, lease=lease.view)

    async def renew(self, lease_token: str, ttl_ms: int | None = None) -> LeaseView:
        return await self._lease(lease_token).renew(ttl_ms)

    async def release(self, lease_token: str) -> LeaseView:
        return await self._lease(lease_token).release()

    async def screenshot(
        self, request: ScreenshotRequest, *, caller: Caller, lease_token: str | None = None
    ) -> Screenshot:
        return await self._client.screenshot(request, lease_token=lease_token)

    async def image(self, screenshot_id: str, *, caller: Caller) -> bytes:
        return await self._client.image(screenshot_id)

    async def input(self, request: InputRequest, *, caller: Caller, lease_token: str) -> Receipt:
        """See BodyPort. Cancelled, the connection closes, which drains the batch over there."""
        return await self._lease(lease_token, request.epoch).send(request)

    async def receipt(self, request_id: str, *, caller: Caller) -> Receipt:
        return await self._client.receipt(request_id)

    async def inventory(self, *, caller: Caller) -> Inventory:
        return await self._client.inventory()

    async def pause(self, *, caller: Caller, reason: str) -> LeaseView:
        return await self._client.pause(reason=reason)

    async def resume(self, *, caller: Caller, lease_token: str | None = None) -> LeaseView:
        return await self._client.resume(lease_token=lease_token)

    async def stop(self, *, caller: Caller, reason: str) -> LeaseView:
        return await self._client.stop(reason=reason)

    async def recover(self, *, caller: Caller, step: int = 1) -> LeaseView:
        return await self._client.recover(step=step)

    async def revoke(self, *, caller: Caller, reason: str) -> LeaseView:
        raise _ask_there("revoke")

    async def takeover(self, *, caller: Caller, reason: str) -> Grant:
        raise _ask_there("take over")

    async def handback(self, *, caller: Caller, lease_token: str) -> LeaseView:
        raise _ask_there("hand back")

    async def resize(self, request: ResizeRequest, *, caller: Caller, lease_token: str | None = None) -> Act:
        raise _ask_there("resize")

    async def clipboard(self, *, caller: Caller, lease_token: str | None = None) -> ClipboardText:
        raise _ask_there("read the clipboard")

    async def write_clipboard(self, request: ClipboardRequest, *, caller: Caller, lease_token: str) -> Act:
        raise _ask_there("write the clipboard")

    async def launch(self, request: LaunchRequest, *, caller: Caller, lease_token: str) -> Act:
        raise _ask_there("launch apps")

    async def activate(self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str) -> Act:
        raise _ask_there("activate windows")

    async def close_window(
        self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str
    ) -> Act:
        raise _ask_there("close windows")

    def _lease(self, token: str, epoch: int = 0) -> ClientLease:
        view = LeaseView(state=LeaseState.HELD, epoch=epoch)
        return ClientLease(self._client, Grant(lease_token=token, epoch=epoch, lease=view))


class RemoteShell:
    """Implements contract.ports.ProcessPort. Left, the connection closes, which ends the call over there."""

    def __init__(self, client: BodyClient) -> None:
        self._client = client

    def run(
        self,
        commands: Sequence[str],
        *,
        lease_token: str,
        timeout_ms: int | None,
        max_output_length: int | None,
        concurrent: bool = False,
        working_directory: str | None = None,
        epoch: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[ProcessChunk | ProcessResult]]:
        request = checked(
            commands=tuple(commands),
            timeout_ms=timeout_ms,
            max_output_length=max_output_length,
            concurrent=concurrent,
            working_directory=working_directory,
            epoch=epoch,
        )
        return self._client.shell(request, lease_token=lease_token)


def _ask_there(what: str) -> Forbidden:
    return Forbidden(
        f"a gateway passes on lease, screenshots and input alone; {what} at the body's own daemon"
    )
