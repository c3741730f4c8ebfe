"""The ports: what the rooms and the adapters may ask of each other, as Protocols.

An adapter sees nothing else of bodyd. Implementations: BodyPort driver/body.py (in the daemon) and
client.py (over HTTP); StorePort journal/; ProcessPort execution/; ApprovalPort policy/;
UpstreamPort adapters/ (a model's server, or the scripted one).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from .actions import Action, InputRequest
from .acts import Act, ActRequest, ClipboardRequest, ClipboardText, LaunchRequest, ResizeRequest
from .code import CodeRequest
from .elements import AccessibilityState, Node, Target, View
from .geometry import Bounds, Point
from .inventory import Inventory
from .lease import AcquireRequest, Grant, HolderKind, LeaseView, Scope
from .receipts import Receipt
from .screenshots import Screenshot, ScreenshotRequest

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class XEndpoint:
    """Where the body's X server listens, as the daemon reaches it.

    `uid` is the server's: the daemon connects to a socket of that owner alone. `cookie` is the
    16-byte MIT-MAGIC-COOKIE-1.
    """

    socket_path: str
    cookie: bytes = field(repr=False)
    uid: int


class Permit(Protocol):
    """The right to send, tied to one epoch; asked at the last synchronous point before each atom."""

    @property
    def valid(self) -> bool:
        """False from the moment that the lease drains or its epoch moves. Callable from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking: a bearer token's scope and stable id (a digest, never the token)."""

    id: str
    scope: Scope


class BodyPort(Protocol):
    """One body: lease, screenshots, input. Every method raises errors of bodyd.errors."""

    async def status(self) -> Json:
        """Body id, lease, isolation, display size and component health; never a secret."""
        ...

    async def acquire(
        self, request: AcquireRequest, *, caller: Caller, kind: HolderKind = HolderKind.AGENT
    ) -> Grant:
        """Take the lease, waiting up to `wait_ms` in a bounded queue.

        Raises:
            Busy, QueueFull, RecoveryRequired, BodyStopped.
        Cancellation:
            Atomic: granted and journalled, or nothing happened.
        """
        ...

    async def renew(self, lease_token: str, ttl_ms: int | None = None) -> LeaseView: ...

    async def release(self, lease_token: str) -> LeaseView:
        """Give the body back; returns once quiescence is proved or recovery is required."""
        ...

    async def revoke(self, *, caller: Caller, reason: str) -> LeaseView: ...

    async def pause(self, *, caller: Caller, reason: str) -> LeaseView: ...

    async def resume(self, *, caller: Caller, lease_token: str | None = None) -> LeaseView: ...

    async def stop(self, *, caller: Caller, reason: str) -> LeaseView: ...

    async def takeover(self, *, caller: Caller, reason: str) -> Grant: ...

    async def handback(self, *, caller: Caller, lease_token: str) -> LeaseView: ...

    async def recover(self, *, caller: Caller, step: int = 1) -> LeaseView: ...

    async def screenshot(
        self, request: ScreenshotRequest, *, caller: Caller, lease_token: str | None = None
    ) -> Screenshot:
        """Capture; with a lease token the result is bound to that driver's input."""
        ...

    async def image(self, screenshot_id: str, *, caller: Caller) -> bytes:
        """The PNG of a kept screenshot."""
        ...

    async def input(self, request: InputRequest, *, caller: Caller, lease_token: str) -> Receipt:
        """Run one batch through the door.

        Cancellation:
            The batch drains at the next atom; its receipt is durable all the same.
        """
        ...

    async def receipt(self, request_id: str, *, caller: Caller) -> Receipt: ...

    async def inventory(self, *, caller: Caller) -> Inventory: ...

    async def resize(self, request: ResizeRequest, *, caller: Caller, lease_token: str | None = None) -> Act:
        """Resize the screen, under the lease or as the owner; every screenshot id is void afterwards."""
        ...

    async def clipboard(self, *, caller: Caller, lease_token: str | None = None) -> ClipboardText:
        """Read the clipboard, under the lease or as the owner."""
        ...

    async def write_clipboard(
        self, request: ClipboardRequest, *, caller: Caller, lease_token: str
    ) -> Act: ...

    async def launch(self, request: LaunchRequest, *, caller: Caller, lease_token: str) -> Act:
        """Start one of the configured apps."""
        ...

    async def activate(self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str) -> Act:
        """Raise and focus a window of an inventory or a screenshot."""
        ...

    async def close_window(
        self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str
    ) -> Act: ...


class AccessibilityPort(Protocol):
    """What the body's apps say about their structure: hostile input, read within bounds.

    Every method answers within its own bound of time, or raises AccessibilityUnavailable: accessibility is
    off, its bus is dead, or the app at fault does not answer. None blocks input that needs no answer.
    Windows are named by X id, as in screenshots.
    """

    @property
    def state(self) -> AccessibilityState: ...

    async def elements(self, view: Bounds) -> View:
        """What shows in *view*, in screen pixels, of all windows that are not wholly covered."""
        ...

    async def at(self, point: Point) -> Target | None:
        """The innermost element at *point* of the screen; None where the app there has no accessibility."""
        ...

    async def focused(self) -> Target | None:
        """What has the keyboard in the active window; None where the app there does not say."""
        ...

    async def element(self, element_id: str) -> Target | None:
        """That element as it is now; None once its app has dropped it."""
        ...

    async def tree(self, window_id: int) -> Node | None:
        """All of a window, cut off at MAX_ELEMENTS and MAX_DEPTH; None if its app has no accessibility."""
        ...

    async def find(self, *, role: str | None = None, name: str | None = None) -> View:
        """Showing elements of that role, with *name* in their name (case folded), in any window."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to keep.

    Attributes:
        images: Content hashes of the images that it shows; they stay while it stays.
        parts: Keys of documents of kind `item` that it is made of; an item that nothing is made of any
            more is removed.
    """

    kind: str
    key: str
    body: Json
    images: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class StorePort(Protocol):
    """A gateway's durable store: JSON documents by kind and key, images once by content hash.

    Every method raises JournalUnavailable where the store can't be read or written.
    """

    async def put(self, documents: Sequence[Document], images: Mapping[str, bytes] | None = None) -> None:
        """Keep all of them, or nothing. A document of the same kind and key is replaced.

        Args:
            images: By SHA-256 in hex. One that is kept already is not written again.
        Cancellation:
            Atomic.
        """
        ...

    async def get(self, kind: str, key: str) -> Json | None: ...

    async def get_all(self, kind: str, keys: Sequence[str]) -> dict[str, Json]:
        """Those of *keys* that are kept."""
        ...

    async def delete(self, kind: str, key: str) -> bool:
        """Remove a document, and the items and images that only it needed."""
        ...

    async def keys(self, kind: str) -> Sequence[str]:
        """All keys of a kind, oldest first."""
        ...

    async def image_sizes(self, hashes: Sequence[str]) -> dict[str, int]:
        """The bytes of those images that are kept, without reading them."""
        ...

    async def images(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Those of the images that are kept."""
        ...

    async def remove_before(self, kinds: Sequence[str], before_ms: int) -> int:
        """Remove documents of *kinds* that were put before then; returns how many."""
        ...


class UpstreamPort(Protocol):
    """A model's server, in the shape of OpenAI's Responses API."""

    async def respond(self, request: Mapping[str, Any]) -> Json:
        """One blocking round: a request body in, a Response object out.

        Raises:
            Unavailable: no answer could be had; nothing was retried silently.
        """
        ...

    def stream(self, request: Mapping[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """The same round as a stream of Responses events; leaving the context cancels it upstream."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessChunk:
    """Output as it comes: which command of the call, which stream, the text.

    Of each command no more is told this way than its result keeps; of endless output, the beginning.
    """

    command: int
    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """`exit_code` is None for a timeout; `omitted_bytes` were cut from the middle.

    A command that was cancelled has the exit code CANCELLED_EXIT and a note on stderr.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    timed_out: bool
    omitted_bytes: int
    command: int = 0


CANCELLED_EXIT = 137


class ProcessPort(Protocol):
    """Commands inside the body's shell sandbox, bounded, dead when told to."""

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
        """Run in order (or at once), in the folder of the claim's conversation; results come in order.

        The tree of every command dies when the context is left, and as soon as the lease is fenced: then,
        what had not ended has a result that says so.

        Args:
            timeout_ms: For each command; the configuration's, if that is less. `max_output_length` likewise,
                in characters of a command's stdout and stderr together.
            working_directory: Below the working root; None is the root.
        Raises:
            LeaseError: nothing was run.
            PolicyRefused: a command is not allowed; none was run.
            InvalidRequest: as `contract.shell.ShellRequest` is checked.
            IsolationUnavailable, JournalUnavailable: from the iterator also in the middle.
        """
        ...


class JobState(StrEnum):
    RUNNING = "running"
    FROZEN = "frozen"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Job:
    """A command that was asked to run on after its call. Times in Unix ms.

    `result` is what came of it; of one that has not ended, its output so far: no exit code, not timed out.
    """

    job_id: str
    conversation_id: str
    state: JobState
    started_at: int
    ended_at: int | None
    result: ProcessResult


class JobsPort(Protocol):
    """Commands in the background: bounded in number and time, dead with the lease that they run under.

    They do not renew it. Whoever has the lease token sees those of the claim's conversation; the owner,
    without one, sees all.
    """

    async def start(
        self,
        command: str,
        *,
        lease_token: str,
        timeout_ms: int | None,
        max_output_length: int | None,
        working_directory: str | None = None,
        epoch: int | None = None,
    ) -> Job:
        """Begin one, judged and bounded as a call's command is.

        Raises:
            As ProcessPort.run; Unavailable: as many run as may.
        """
        ...

    def jobs(self, *, caller: Caller, lease_token: str | None) -> list[Job]:
        """Those that run and the last that ended, oldest first. Raises LeaseError."""
        ...

    def job(self, job_id: str, *, caller: Caller, lease_token: str | None) -> Job:
        """One of them. Raises LeaseError, NotFound."""
        ...

    async def end_job(self, job_id: str, *, caller: Caller, lease_token: str | None) -> Job:
        """Kill it, if it runs, and strike it off the list; what came of it.

        Raises:
            LeaseError, NotFound.
        Cancellation:
            It is killed all the same, and may stay listed.
        """
        ...


class CodeOutcome(Protocol):
    """What came of code that ran."""

    def to_json(self) -> Json:
        """{call_id, output, error, ui_calls, state_lost, omitted_bytes, omitted_images}."""
        ...


@dataclass(frozen=True, slots=True)
class CodeItem:
    """A piece of output as it came: `text`, or an `image` as a data URL."""

    kind: Literal["text", "image"]
    value: str


class CodePort(Protocol):
    """Python beside the desktop, one process a conversation, that acts on it through the door."""

    async def run(self, request: CodeRequest, *, caller: Caller, lease_token: str) -> CodeOutcome:
        """Run code in the process of the claim's conversation; an exception in it is an outcome.

        Raises:
            LeaseError, JournalUnavailable, IsolationUnavailable: nothing was run.
            EndNotRecorded: it was run, and its end could not be written down.
        Cancellation:
            The process dies.
        """
        ...

    def stream(
        self, request: CodeRequest, *, caller: Caller, lease_token: str
    ) -> AbstractAsyncContextManager[AsyncIterator[CodeItem | CodeOutcome]]:
        """As `run`, with each piece of output as it comes, and the outcome last. Raises on entry.

        Cancellation:
            Leaving the context kills the process, if the code has not ended.
        """
        ...


class Verdict(StrEnum):
    ALLOW = "allow"
    APPROVE = "approve"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What someone is asked to approve: bound to conversation, request fingerprint and epoch.

    `reason` is for the person, where the rule's name does not say it all; it may be untrusted text. What
    will happen is `actions`, aimed at the screenshot `screenshot_id`, or `commands`.
    """

    approval_id: str
    conversation_id: str
    fingerprint: str
    epoch: int
    rule: str
    actions: tuple[Action, ...]
    reason: str = ""
    screenshot_id: str | None = None
    commands: tuple[str, ...] = ()


class ApprovalPort(Protocol):
    """Who answers approvals. No hook configured means deny."""

    async def decide(self, request: ApprovalRequest) -> bool:
        """True only if a person or a configured rule approved exactly this request."""
        ...

    async def decided(self, approval_id: str) -> bool:
        """Wait for the answer to what the door parked: True once it is approved.

        False if it was refused, has expired, is void after a hand-over, or is not known.
        """
        ...
