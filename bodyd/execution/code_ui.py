"""`ui`, on the daemon's side: each call of a worker's is judged and goes through the one door.

A worker is believed nothing: what it sends is checked as a client's request is, and its calls are counted.
Counterparts: inside/desk.py asks, code.py reads the wire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from bodyd.contract import actions as a
from bodyd.contract.acts import Act, ActRequest, ClipboardRequest, ClipboardText, LaunchRequest
from bodyd.contract.code import MAX_UI_CALLS
from bodyd.contract.geometry import Bounds
from bodyd.contract.inventory import Inventory
from bodyd.contract.ports import Caller, Permit
from bodyd.contract.receipts import Outcome, Receipt
from bodyd.contract.screenshots import RegionTarget, Screenshot, ScreenshotRequest
from bodyd.errors import BodydError, InvalidRequest, LeaseError, NotDelivered, StaleLease, TooManyUiCalls

Answer = tuple[object, bytes]

_READS = frozenset(("screenshot", "settle", "pointer", "windows", "clipboard"))


class Desk(Protocol):
    """What of the body code may use; driver/body.py's, method for method."""

    async def input(
        self, request: a.InputRequest, *, caller: Caller, lease_token: str, minted: bool
    ) -> Receipt: ...

    async def settle(self) -> None: ...

    async def screenshot(
        self, request: ScreenshotRequest, *, caller: Caller, lease_token: str | None = None
    ) -> Screenshot: ...

    async def image(self, screenshot_id: str, *, caller: Caller) -> bytes: ...

    async def inventory(self, *, caller: Caller) -> Inventory: ...

    async def status(self) -> dict[str, Any]: ...

    async def activate(
        self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str
    ) -> Act: ...

    async def close_window(
        self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str
    ) -> Act: ...

    async def launch(self, request: LaunchRequest, *, caller: Caller, lease_token: str) -> Act: ...

    async def clipboard(self, *, caller: Caller, lease_token: str | None = None) -> ClipboardText: ...

    async def write_clipboard(
        self, request: ClipboardRequest, *, caller: Caller, lease_token: str
    ) -> Act: ...


class Hands:
    """The `ui` of one call of the tool.

    Attributes:
        judge: Raises why the lease does not admit this call any more, if it does not.
        calls: How many there were.
    """

    def __init__(
        self,
        desk: Desk,
        permit: Permit,
        *,
        judge: Callable[[], object],
        call_id: str,
        epoch: int,
        caller: Caller,
        lease_token: str,
    ) -> None:
        self._desk = desk
        self._permit = permit
        self._judge = judge
        self._call_id = call_id
        self._epoch = epoch
        self._caller = caller
        self._token = lease_token
        self._last: str | None = None
        self._unsettled = False
        self.calls = 0
        self._ops: dict[str, Callable[[Mapping[str, Any]], Awaitable[Answer]]] = {
            "inputs": self._inputs,
            "screenshot": self._screenshot,
            "settle": self._settle,
            "pointer": self._pointer,
            "windows": self._windows,
            "activate": self._activate,
            "close": self._close,
            "launch": self._launch,
            "clipboard": self._clipboard,
            "set_clipboard": self._set_clipboard,
        }

    async def do(self, op: str, args: object) -> tuple[dict[str, object], bytes]:
        """Carry one call out; an error is an answer, too.

        Cancellation:
            As of the door: an input drains at its next atom.
        """
        self.calls += 1
        try:
            if self.calls > MAX_UI_CALLS:
                raise TooManyUiCalls(
                    f"this is `ui` call {self.calls} of one exec_py, and {MAX_UI_CALLS} are allowed: nothing "
                    "was done; look at the screen, then go on in another call"
                )
            if op not in self._ops or not isinstance(args, dict):
                raise InvalidRequest(f"`ui` has no {op!r:.40}")
            self._fence()
            value, tail = await self._ops[op](args)
            if op in _READS:  # what is seen by now may be somebody else's
                self._fence()
            return {"value": value}, tail
        except BodydError as exc:
            over = isinstance(exc, LeaseError) or not self._permit.valid
            return {"error": {"message": exc.message, "code": exc.code, "over": over}}, b""

    def _fence(self) -> None:
        """The lease, for what does not go through the door's own check of it."""
        if not self._permit.valid:
            self._judge()
            raise StaleLease("the lease of this call has ended, or was interrupted")

    async def _inputs(self, args: Mapping[str, Any]) -> Answer:
        request = a.parse_input_request(
            {
                "request_id": f"{self._call_id}.{self.calls}",
                "continues": self._last,
                "epoch": self._epoch,
                "inputs": args.get("inputs"),
                "settle": False,
            }
        )
        receipt = await self._desk.input(request, caller=self._caller, lease_token=self._token, minted=True)
        self._last, self._unsettled = request.request_id, True
        for item in receipt.inputs:
            if item.delivery.outcome is not Outcome.CONFIRMED:
                sent = item.delivery.sent
                raise NotDelivered(
                    f"inputs[{item.index}] ({item.type}) was not delivered: {item.delivery.outcome}, "
                    f"{item.delivery.reason}, {sent.units} of {sent.of} sent"
                )
        return receipt.model_dump(mode="json", include={"request_id", "outcome", "inputs"}), b""

    async def _settle(self, _args: Mapping[str, Any]) -> Answer:
        await self._desk.settle()
        self._unsettled = False
        return None, b""

    async def _screenshot(self, args: Mapping[str, Any]) -> Answer:
        if self._unsettled:
            await self._settle({})
        wanted = _checked(
            ScreenshotRequest,
            {k: v for k, v in args.items() if k in ("cursor", "max_width", "max_height", "target") and v},
        )
        shot = await self._desk.screenshot(wanted, caller=self._caller, lease_token=self._token)
        png = await self._desk.image(shot.screenshot_id, caller=self._caller)
        return {"screenshot_id": shot.screenshot_id, "width": shot.width, "height": shot.height}, png

    async def _pointer(self, _args: Mapping[str, Any]) -> Answer:
        corner = RegionTarget(type="region", bounds=Bounds(x=0, y=0, width=1, height=1))
        shot = await self._desk.screenshot(ScreenshotRequest(target=corner), caller=self._caller)
        size = (await self._desk.status())["display"] or {"width": 0, "height": 0}
        return {"x": shot.cursor.x, "y": shot.cursor.y, **size}, b""

    async def _windows(self, _args: Mapping[str, Any]) -> Answer:
        inventory = await self._desk.inventory(caller=self._caller)
        return [window.model_dump(mode="json") for window in inventory.windows], b""

    async def _activate(self, args: Mapping[str, Any]) -> Answer:
        return await self._act(self._desk.activate, args)

    async def _close(self, args: Mapping[str, Any]) -> Answer:
        return await self._act(self._desk.close_window, args)

    async def _act(self, act: Callable[..., Awaitable[Act]], args: Mapping[str, Any]) -> Answer:
        window = args.get("window_id")
        if not isinstance(window, int) or isinstance(window, bool):
            raise InvalidRequest("window_id must be the id of a window, from ui.windows()")
        done = await act(window, ActRequest(epoch=self._epoch), caller=self._caller, lease_token=self._token)
        return done.model_dump(mode="json"), b""

    async def _launch(self, args: Mapping[str, Any]) -> Answer:
        wanted = _checked(LaunchRequest, {"name": args.get("name"), "epoch": self._epoch})
        done = await self._desk.launch(wanted, caller=self._caller, lease_token=self._token)
        return done.model_dump(mode="json"), b""

    async def _clipboard(self, _args: Mapping[str, Any]) -> Answer:
        return (await self._desk.clipboard(caller=self._caller, lease_token=self._token)).text, b""

    async def _set_clipboard(self, args: Mapping[str, Any]) -> Answer:
        wanted = _checked(ClipboardRequest, {"text": args.get("text"), "epoch": self._epoch})
        done = await self._desk.write_clipboard(wanted, caller=self._caller, lease_token=self._token)
        return done.model_dump(mode="json"), b""


def _checked(model: Any, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401 (a model's class, and one of it)
    try:
        return model.model_validate(dict(fields))
    except ValidationError as exc:
        raise a.invalid(exc) from None
