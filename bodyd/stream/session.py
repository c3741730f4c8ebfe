"""One client's conversation: greeting, pictures out, acknowledgements and input in.

Three tasks that never wait for each other: one reads, one writes, one acts; so no amount of output
holds up input, and a slow body holds up no reading. Input of one who does not drive is dropped, and
audited. A lost connection lets go of every key; the claim stays until its ttl ends, so that the same
person can go on over another connection.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import trio

from bodyd.contract.adapters import HttpRequest, Socket, SocketClosed
from bodyd.contract.lease import HolderKind, LeaseState, Scope
from bodyd.driver.body import Body
from bodyd.errors import (
    BodydError,
    Draining,
    Forbidden,
    InvalidRequest,
    LeaseError,
    LeaseRequired,
    RequestTimeout,
)

from . import protocol as p
from .gestures import Gestures, latest
from .hub import Hub
from .watcher import Watcher

HELLO_SECONDS = 10.0
STALLED_SECONDS = 20.0
"""A client that acknowledges nothing for so long is dropped."""

LOOK_SECONDS = 5.0
RENEW_SECONDS = 10.0
LEAVE_SECONDS = 2.0
MOST_INPUTS = 512
"""Inputs that may wait; beyond that the client floods, and is dropped."""

AUDIT_SECONDS = 60.0


class Session:
    """Serves one WebSocket; one instance each."""

    def __init__(self, body: Body, hub: Hub, request: HttpRequest, socket: Socket) -> None:
        self._body = body
        self._hub = hub
        self._caller = request.caller
        self._socket = socket
        self._watcher = Watcher(sees=self._sees, video=False)
        self._gestures = Gestures()
        self._token: str | None = None
        self._inputs: deque[p.Input | p.Request] = deque()
        self._input_came = trio.Event()
        self._scope = trio.CancelScope()
        self._sent = 0
        self._dropped = 0
        self._audited_at = float("-inf")

    async def run(self) -> None:
        """Until the client leaves.

        Raises:
            SocketClosed: it left, or was dropped.
        """
        try:
            hello = await self._hello()
        except BodydError as exc:
            await self._socket.send(_refusal(exc, "hello"))
            return
        self._watcher.video = "h264" in hello.codecs
        self._watcher.say(p.say(p.Said.WELCOME, version=p.VERSION, window=p.WINDOW, scope=self._caller.scope))
        self.tell_state()
        try:
            with self._hub.watching(self._watcher):
                async with trio.open_nursery() as nursery:
                    self._scope = nursery.cancel_scope
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._act)
                    nursery.start_soon(self._look_after)
                    await self._read()
        finally:
            with trio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._leave()

    def end(self) -> None:
        """Close the connection, soon."""
        self._scope.cancel(reason="the live view is to end")

    def tell_state(self) -> None:
        """Say who drives, and whether what they see is to be seen here."""
        self._watcher.say(self._state(), latest="state")

    def _state(self) -> str:
        lease = self._body.lease()
        person = lease.claim is not None and lease.claim.kind is HolderKind.PERSON
        driver = "nobody" if lease.claim is None else "person" if person else "agent"
        if lease.state in (LeaseState.DRAINING, LeaseState.STOPPED, LeaseState.RECOVERY_REQUIRED):
            driver = "nobody"
        return p.say(
            p.Said.STATE,
            lease=lease.model_dump(mode="json"),
            driver=driver,
            yours=self._token is not None and person and driver == "person",
            hidden=not self._sees(),
        )

    # -- reading and writing ---------------------------------------------------------------------

    async def _hello(self) -> p.Hello:
        with trio.move_on_after(HELLO_SECONDS):
            said = p.parse(await self._receive())
            if not isinstance(said, p.Hello):
                raise InvalidRequest("say hello first")
            if said.version != p.VERSION:
                raise InvalidRequest(f"this server speaks version {p.VERSION} of the stream", param="version")
            return said
        raise RequestTimeout("nothing was said for too long")

    async def _receive(self) -> str | bytes:
        message = await self._socket.receive()
        if len(message) > p.MAX_MESSAGE:
            raise InvalidRequest(f"a message may have {p.MAX_MESSAGE} bytes")
        return message

    async def _read(self) -> None:
        while True:
            try:
                said = p.parse(await self._receive())
            except InvalidRequest as exc:
                self._watcher.say(_refusal(exc, None))
                continue
            match said:
                case p.Ack(sequence=sequence):
                    had_room = self._watcher.has_room
                    self._watcher.acknowledge(sequence)
                    if not had_room:
                        self._hub.poke()
                case p.Ping(id=number):
                    self._watcher.say(p.say(p.Said.PONG, id=number), latest="pong")
                case p.Hello():
                    self._watcher.say(_refusal(InvalidRequest("hello was said already"), "hello"))
                case _:
                    await self._take(said)

    async def _take(self, said: p.Input | p.Request) -> None:
        if self._token is None and not isinstance(said, p.TakeOver | p.Drive):
            await self._drop(said)
            return
        if isinstance(said, p.TakeOver | p.Drive | p.HandBack) and self._caller.scope is not Scope.OWNER:
            await self._drop(said)
            return
        if len(self._inputs) >= MOST_INPUTS:
            self._inputs = deque(latest_of(self._inputs))
            if len(self._inputs) >= MOST_INPUTS:
                raise SocketClosed
        self._inputs.append(said)
        self._input_came.set()

    async def _drop(self, said: p.Input | p.Request) -> None:
        """Nothing is done; the audit has it, at most once a minute for each client."""
        self._dropped += 1
        if self._dropped == 1 or not isinstance(said, p.Pointer):
            self._watcher.say(
                _refusal(_why_not(self._caller.scope), said.type), latest=f"refused {said.type}"
            )
        now = trio.current_time()
        if now >= self._audited_at + AUDIT_SECONDS:
            self._audited_at = now
            facts: dict[str, object] = {"caller": self._caller.id, "count": self._dropped, "type": said.type}
            await self._body.hands.note("stream.input_dropped", facts)

    async def _write(self) -> None:
        while True:
            await self._socket.send(await self._watcher.next())

    async def _look_after(self) -> None:
        """Drop a client that has stalled; keep the claim of one who drives."""
        renewed = trio.current_time()
        while True:
            await trio.sleep(LOOK_SECONDS)
            now, oldest = trio.current_time(), self._watcher.oldest
            if oldest is not None and now - oldest > STALLED_SECONDS:
                raise SocketClosed
            if self._token is not None and now - renewed >= RENEW_SECONDS:
                renewed = now
                with suppress(Draining):
                    try:
                        await self._body.hands.keep(self._token)
                    except BodydError:
                        self._lose()

    # -- acting ----------------------------------------------------------------------------------

    async def _act(self) -> None:
        while True:
            await self._input_came.wait()
            self._input_came = trio.Event()
            while self._inputs:
                said = self._inputs.popleft()
                try:
                    await self._do(said)
                except LeaseError as exc:
                    self._watcher.say(_refusal(exc, said.type))
                    if not isinstance(exc, Draining):
                        self._lose()
                except BodydError as exc:
                    self._watcher.say(_refusal(exc, said.type))

    async def _do(self, said: p.Input | p.Request) -> None:
        hands = self._body.hands
        match said:
            case p.TakeOver():
                grant = await hands.take_over(caller=self._caller, reason=said.reason)
                self._drive(grant.lease_token, grant.epoch)
            case p.Drive():
                view = await hands.keep(said.lease_token)
                self._drive(said.lease_token, view.epoch)
            case p.HandBack():
                await self._hand_back()
            case p.SetClipboard():
                await hands.write_clipboard(said.text, caller=self._caller, lease_token=self._driving())
                self._watcher.say(p.say(p.Said.DONE, of=said.type))
            case p.GetClipboard():
                text = await hands.read_clipboard(caller=self._caller, lease_token=self._driving())
                self._watcher.say(p.say(p.Said.CLIPBOARD, text=text))
            case p.LetGo():
                self._gestures.forget()
                await hands.let_go(lease_token=self._driving())
            case _:
                await self._send(said)

    async def _send(self, first: p.Input) -> None:
        """Everything that waits up to the next request, in one go: the last of the moves alone."""
        run: list[p.Input] = [first]
        while self._inputs and isinstance(
            self._inputs[0], p.Pointer | p.Button | p.Wheel | p.KeyPress | p.Text
        ):
            run.append(self._inputs.popleft())  # type: ignore[arg-type]
        token, screen = self._driving(), self._body.hands.screen
        atoms = []
        for said in latest(run):
            try:
                atoms += self._gestures.atoms(said, screen)
            except InvalidRequest as exc:
                self._watcher.say(_refusal(exc, said.type))
        if not atoms:
            return
        report = await self._body.hands.send(atoms, lease_token=token)
        self._sent += report.sent
        if report.failure == "untypable":
            self._watcher.say(_refusal(InvalidRequest("a character of this text can't be typed"), "text"))

    def _driving(self) -> str:
        if self._token is None:
            raise LeaseRequired("take over first")
        return self._token

    def _drive(self, token: str, epoch: int) -> None:
        self._token = token
        self._gestures.forget()
        self._hub.veil()
        self._watcher.say_in_order(
            self._state(), latest="state"
        )  # whoever is granted it knows that it is theirs
        self._watcher.say(p.say(p.Said.GRANTED, lease_token=token, epoch=epoch))

    async def _hand_back(self) -> None:
        token, self._token = self._driving(), None
        self._gestures.forget()
        await self._body.hands.hand_back(caller=self._caller, lease_token=token)
        self._watcher.say(p.say(p.Said.DONE, of="hand_back"))
        self.tell_state()
        await self._note_turn()

    def _lose(self) -> None:
        """The claim is over: whoever took it has lifted the keys."""
        self._token = None
        self._gestures.forget()
        self.tell_state()

    async def _leave(self) -> None:
        """Lift what is held; the claim stays for whoever comes back with its token."""
        if self._token is None:
            return
        with suppress(BodydError):
            await self._body.hands.let_go(lease_token=self._token)
        with suppress(BodydError):
            await self._note_turn()

    async def _note_turn(self) -> None:
        sent, self._sent = self._sent, 0
        await self._body.hands.note("stream.person_drove", {"caller": self._caller.id, "units": sent})

    def _sees(self) -> bool:
        return self._caller.scope is Scope.OWNER or not self._body.person_driving


def latest_of(inputs: deque[p.Input | p.Request]) -> list[p.Input | p.Request]:
    """*inputs* without void moves."""
    kept: list[p.Input | p.Request] = []
    for said in inputs:
        if isinstance(said, p.Pointer) and kept and isinstance(kept[-1], p.Pointer):
            kept.pop()
        kept.append(said)
    return kept


def _why_not(scope: Scope) -> BodydError:
    if scope is Scope.OWNER:
        return LeaseRequired("take over first: only who drives may act")
    return Forbidden("this connection watches; only an owner takes over")


def _refusal(error: BodydError, of: str | None) -> str:
    told = {"code": error.code, "message": error.message, "retryable": error.retryable}
    return p.say(p.Said.REFUSED, of=of, error=told)
