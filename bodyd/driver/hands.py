"""A person's hands: input as it comes, under the lease like everyone's, without journal and policy.

The epoch is checked at the last synchronous point, as for a batch; the journal has when a person drove
and how much, never what. Counterpart: stream/session.py; door.py has the one lock that a proof of
quiescence waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bodyd.contract.acts import ClipboardRequest
from bodyd.contract.atoms import Atom
from bodyd.contract.geometry import Size
from bodyd.contract.lease import Grant, HolderKind, LeaseView
from bodyd.contract.ports import Caller
from bodyd.display.input import SendReport
from bodyd.errors import Forbidden
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission

from .acts import Acts
from .door import Door
from .live import LiveDisplay


class TakeOver(Protocol):
    """How a person takes the body."""

    async def __call__(self, *, caller: Caller, reason: str) -> Grant: ...


class Hands:
    """What a person may do to one body. Every method but `take_over` needs the token that it returned."""

    def __init__(
        self,
        *,
        take_over: TakeOver,
        leases: Callable[[], LeaseManager],
        door: Door,
        acts: Acts,
        live: LiveDisplay,
        journal: Journal,
    ) -> None:
        self._take_over = take_over
        self._leases = leases
        self._door = door
        self._acts = acts
        self._live = live
        self._journal = journal

    @property
    def screen(self) -> Size:
        """The size of the screen now.

        Raises:
            DisplayUnavailable.
        """
        return self._live.current.size

    async def take_over(self, *, caller: Caller, reason: str) -> Grant:
        """Take the body for a person; returns once it is quiet and theirs.

        Raises:
            Forbidden, RecoveryRequired, BodyStopped, JournalUnavailable.
        Cancellation:
            As LeaseManager.takeover; what was granted by then lapses by its ttl.
        """
        return await self._take_over(caller=caller, reason=reason)

    async def keep(self, lease_token: str) -> LeaseView:
        """Renew the person's claim; also after a blip, by another connection.

        Raises:
            StaleLease: it is over, or not a person's.
        """
        view = await self._leases().renew(lease_token)
        self._admit(lease_token)
        return view

    async def send(self, atoms: Sequence[Atom], *, lease_token: str) -> SendReport:
        """Send *atoms* now, in order.

        Raises:
            LeaseError: nothing was sent.
            DisplayUnavailable.
        Cancellation:
            Stops at the next atom.
        """
        async with self._door.between_batches(self._admit(lease_token)) as (display, admission):
            return await display.follow(atoms, admission.permit)

    async def let_go(self, *, lease_token: str) -> None:
        """Lift every key and button.

        Raises:
            LeaseError: the claim is over, and so they are lifted.
            DisplayUnavailable.
        """
        async with self._door.between_batches(self._admit(lease_token)) as (display, _):
            await display.release_all()

    async def write_clipboard(self, text: str, *, caller: Caller, lease_token: str) -> None:
        """Put *text* on the body's clipboard; it is cleared when the body changes hands.

        Raises:
            LeaseError, TooLarge, PolicyRefused, Unavailable, DisplayUnavailable.
        """
        self._admit(lease_token)
        request = ClipboardRequest(text=text)
        await self._acts.write_clipboard(request.text, caller=caller, lease_token=lease_token)

    async def read_clipboard(self, *, caller: Caller, lease_token: str) -> str:
        """As `Acts.read_clipboard`."""
        self._admit(lease_token)
        return await self._acts.read_clipboard(caller=caller, lease_token=lease_token)

    async def hand_back(self, *, caller: Caller, lease_token: str) -> LeaseView:
        """Give the body back: to the agent whose claim was suspended, or to nobody.

        Raises:
            StaleLease, JournalUnavailable.
        """
        leases = self._leases()
        if leases.view().suspended is not None:
            return await leases.handback(caller=caller, lease_token=lease_token)
        return await leases.release(lease_token)

    async def note(self, kind: str, facts: dict[str, object]) -> None:
        """Audit that a person drove, or that somebody tried to."""
        await self._journal.audit(kind, facts)

    def _admit(self, lease_token: str) -> Admission:
        admission = self._leases().admit(lease_token, None)
        if admission.claim.kind is not HolderKind.PERSON:
            raise Forbidden("an agent acts in batches: POST /v1/input")
        return admission
