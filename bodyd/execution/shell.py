"""The shell: who may run commands, which, and for how long they may live. Implements ports.ProcessPort.

lease → policy → audit → sandbox, one for each command. A call (or a job, which nobody waits for) lives in the
shell's own nursery and dies with its caller, its lease or the daemon; with `on_takeover = "freeze"` it is
stopped while a person has the body, and goes on afterwards. Counterparts: calls.py, jobs.py.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import trio

from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.ports import CANCELLED_EXIT, ApprovalPort, ApprovalRequest, ProcessChunk, ProcessResult
from bodyd.contract.shell import ShellRequest, checked
from bodyd.desktop.egress import EgressProxy
from bodyd.desktop.layout import Layout
from bodyd.errors import BodydError, IsolationUnavailable, LeaseError, PolicyRefused, Unavailable
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission

from .box import Boxes
from .calls import Call, Ended
from .jobs import Jobs
from .rules import Judgement, judge
from .workspace import Workspace

END_S = 8.0
APPROVAL_S = 60.0
SELF_TEST_S = 15.0
MIN_RENEWAL_S, MAX_RENEWAL_S = 0.02, 5.0
_SELF_TEST = " self-test"  # no conversation is called so: their names have no spaces


@dataclass(eq=False)
class _Admitted:
    """A call, and the admission that it runs under; a frozen one gets another in time."""

    call: Call
    admission: Admission
    background: bool = False


class Shell:
    """One body's shell; made by `open_shell`.

    Args:
        approvals: Who answers for commands that need it; None: they are refused.
    """

    def __init__(
        self,
        config: Config,
        *,
        layout: Layout,
        machine_id: str,
        leases: LeaseManager,
        journal: Journal,
        clock: Clock,
        approvals: ApprovalPort | None = None,
    ) -> None:
        self._settings = config.shell
        self._leases = leases
        self._journal = journal
        self._approvals = approvals
        self._boxes = Boxes(config, layout, machine_id=machine_id)
        uid = layout.uids.shell if layout.uids.drop else None
        self._workspace = Workspace(layout.workspace, uid=uid, keep=config.shell.folders)
        self._room = trio.CapacityLimiter(config.shell.limits.concurrent)
        self.jobs = Jobs(config.shell.limits.jobs, begin=self._begin, leases=leases, now_ms=clock.wall_ms)
        self._admitted: set[_Admitted] = set()
        self._nursery: trio.Nursery | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the calls. Cancelled, every one of them is killed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    @asynccontextmanager
    async def run(
        self,
        commands: Sequence[str],
        *,
        lease_token: str,
        timeout_ms: int | None,
        max_output_length: int | None,
        concurrent: bool = False,
        working_directory: str | None = None,
        epoch: int | None = None,
    ) -> AsyncIterator[AsyncIterator[ProcessChunk | ProcessResult]]:
        """As ports.ProcessPort.

        Cancellation:
            On leaving, every process of the call is dead; bounded by END_S.
        """
        request = checked(
            commands=tuple(commands),
            timeout_ms=timeout_ms,
            max_output_length=max_output_length,
            concurrent=concurrent,
            working_directory=working_directory,
            epoch=epoch,
        )
        admitted = await self._begin(request, lease_token)
        call = admitted.call
        try:
            yield _Output(call)
        finally:
            call.end("the caller left")
            with trio.move_on_after(END_S, shield=True):
                await call.done.wait()
                self._admitted.discard(admitted)

    @property
    def running(self) -> int:
        """How many calls and jobs there are just now."""
        return len(self._admitted)

    @property
    def egress(self) -> EgressProxy:
        """The commands' way out."""
        return self._boxes.egress

    async def quiesce(self) -> bool:
        """Wait until nothing runs any more whose lease was fenced: for the lease's proof."""
        for admitted in list(self._admitted):
            while not admitted.admission.permit.valid and not admitted.call.halted.is_set():
                await admitted.call.halted.wait()
        return True

    # -- admission -----------------------------------------------------------------------------------

    async def _begin(self, request: ShellRequest, lease_token: str) -> _Admitted:
        admitted = await self._admit(request, lease_token)
        assert self._nursery is not None, "serve() owns the calls"
        self._admitted.add(admitted)
        self._nursery.start_soon(self._carry_out, admitted, request.concurrent)
        return admitted

    async def _admit(self, request: ShellRequest, lease_token: str) -> _Admitted:
        """All checks, the audit's row, and the call, ready to run."""
        admission = self._leases.admit(lease_token, request.epoch)
        judgements = [judge(self._settings.policy, command) for command in request.commands]
        call_id = f"shell_{secrets.token_hex(8)}"
        facts = self._facts(call_id, request, judgements, admission)
        await self._pass_policy(request, judgements, admission, facts)
        folder = self._workspace.folder(admission.claim.conversation_id)
        cwd = folder.inside(request.working_directory)
        await self._journal.audit("shell.call", facts)
        try:
            admission = self._leases.admit_again(admission)  # all of that took time
        except BodydError:
            with trio.move_on_after(END_S, shield=True), suppress(BodydError):
                await self._write_down_unbegun(call_id, len(request.commands))
            raise
        limits = self._settings.limits
        longest = limits.job_timeout_ms if request.background else limits.timeout_ms

        async def report(number: int, ended: Ended) -> None:
            await self._journal.audit("shell.command", _ended(call_id, number, ended))

        call = Call(
            self._boxes,
            request.commands,
            folder=folder,
            cwd=cwd,
            timeout=_least(request.timeout_ms, longest) / 1000,
            length=_least(request.max_output_length, limits.output_length),
            limits=limits,
            room=trio.CapacityLimiter(1) if request.background else self._room,
            report=report,
        )
        return _Admitted(call, admission, request.background)

    async def _write_down_unbegun(self, call_id: str, count: int) -> None:
        """On record as a call, its commands need an end there; a journal that fails can't have one."""
        with trio.move_on_after(END_S, shield=True), suppress(BodydError):
            for unbegun in (
                _ended(call_id, n, Ended("cancelled", CANCELLED_EXIT, 0, 0)) for n in range(count)
            ):
                await self._journal.audit("shell.command", unbegun)

    def _facts(
        self, call_id: str, request: ShellRequest, judgements: Sequence[Judgement], admission: Admission
    ) -> dict[str, Any]:
        """What the audit keeps of a call: never a command's text."""
        commands = [
            {**self._journal.sealed(text, f"{call_id}/{number}"), "verdict": judged.verb, "rule": judged.rule}
            for number, (text, judged) in enumerate(zip(request.commands, judgements, strict=True))
        ]
        claim = admission.claim
        return {
            "call_id": call_id,
            "conversation_id": claim.conversation_id,
            "lease_id": claim.lease_id,
            "epoch": admission.epoch,
            "background": request.background,
            "commands": commands,
        }

    async def _pass_policy(
        self,
        request: ShellRequest,
        judgements: Sequence[Judgement],
        admission: Admission,
        facts: dict[str, Any],
    ) -> None:
        """Return if every command may run.

        Raises:
            PolicyRefused: with the first that may not, and its rule. Nothing was run.
        """
        why = "it is denied"
        asked = [n for n, judged in enumerate(judgements) if judged.verb == "approve"]
        refused = next((n for n, judged in enumerate(judgements) if judged.verb == "deny"), None)
        if refused is None and asked:
            refused = asked[0]
            why = "it needs an approval and no approval hook is configured"
            if self._approvals is not None:
                if await self._approved(request.commands, facts, judgements[refused], admission):
                    return
                why = "nobody approved it"
        if refused is None:
            return
        rule = judgements[refused].rule
        await self._journal.audit("shell.refused", {**facts, "index": refused})
        raise PolicyRefused(
            f"commands[{refused}]: {why} (rule {rule}); nothing was run",
            param=f"commands[{refused}]",
            rule=rule,
        )

    async def _approved(
        self, commands: tuple[str, ...], facts: dict[str, Any], judged: Judgement, admission: Admission
    ) -> bool:
        assert self._approvals is not None
        request = ApprovalRequest(
            approval_id=f"apr_{secrets.token_hex(16)}",
            conversation_id=admission.claim.conversation_id,
            fingerprint="/".join(command["digest"] for command in facts["commands"]),
            epoch=admission.epoch,
            rule=f"shell.{judged.rule}",
            actions=(),
            commands=commands,
        )
        approved = False
        with trio.move_on_after(APPROVAL_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_keep_renewed, admission)
                nursery.start_soon(_give_up, admission, nursery.cancel_scope)
                approved = await self._approvals.decide(request)
                nursery.cancel_scope.cancel(reason="decided")
        self._leases.admit_again(admission)  # a question is void after any hand-over, whatever was answered
        return approved

    # -- a call's life -------------------------------------------------------------------------------

    async def _carry_out(self, admitted: _Admitted, concurrent: bool) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, admitted)
                await admitted.call.run(concurrent)
                nursery.cancel_scope.cancel(reason="the call is over")
        finally:
            self._admitted.discard(admitted)
            self.jobs.ended(admitted.call)
        for surplus in self._workspace.surplus({a.call.folder.path for a in self._admitted}):
            await trio.to_thread.run_sync(self._workspace.remove, surplus)

    async def _watch(self, admitted: _Admitted) -> None:
        """Renew the claim while the call runs; end or freeze the call when the claim is fenced.

        A job renews nothing: a driver that has gone would hold the body by it.
        """
        call = admitted.call
        while True:
            async with trio.open_nursery() as nursery:
                if not admitted.background:
                    nursery.start_soon(_keep_renewed, admitted.admission)
                await admitted.admission.interrupted.wait()
                nursery.cancel_scope.cancel(reason="the claim is fenced")
            if self._settings.on_takeover == "kill" or not self._suspended(admitted.admission):
                call.end(self._leases.view().reason or "the lease has ended")
                return
            await call.freeze()
            try:
                admitted.admission = await self._leases.regain(admitted.admission)
            except (LeaseError, Unavailable) as exc:
                call.end(exc.message)
                return
            call.thaw()

    def _suspended(self, admission: Admission) -> bool:
        """Whether the claim may come back: it is set aside, not over."""
        view = self._leases.view()
        kept = {claim.lease_id for claim in (view.claim, view.suspended) if claim is not None}
        return admission.claim.lease_id in kept

    async def test(self) -> None:
        """Run `true` once: what does not work is said at the start, not to the first caller.

        Raises:
            IsolationUnavailable: no command can be run here, and why.
        """
        folder = self._workspace.folder(_SELF_TEST)
        try:
            with trio.move_on_after(SELF_TEST_S) as patience:
                async with self._boxes.open("true", folder, folder.inside(None)) as box:
                    status = await box.sandbox.wait()
                    await box.sandbox.kill()
                    said = os.read(box.stderr, 1000).decode("utf-8", "replace").strip()
        finally:
            self._workspace.remove(folder.path)
        if patience.cancelled_caught:
            raise IsolationUnavailable(f"the shell did not run `true` within {SELF_TEST_S:.0f} s")
        if status != 0:
            raise IsolationUnavailable(f"the shell can't run commands (status {status}): {said}")


class _Output:
    """A call's chunks and results; an iterator and not a generator, so that it can be dropped anywhere."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __aiter__(self) -> _Output:
        return self

    async def __anext__(self) -> ProcessChunk | ProcessResult:
        try:
            return await self._call.output.receive()
        except trio.EndOfChannel:
            if self._call.error is not None:
                raise self._call.error from None
            raise StopAsyncIteration from None


@asynccontextmanager
async def open_shell(
    config: Config,
    *,
    layout: Layout,
    machine_id: str,
    leases: LeaseManager,
    journal: Journal,
    clock: Clock,
    approvals: ApprovalPort | None = None,
) -> AsyncIterator[Shell]:
    """The shell, proved to work; on leaving, nothing that it started is left.

    Raises:
        ConfigError: a path that commands are to see can't be shown to them.
        IsolationUnavailable: no command can be run here.
    """
    shell = Shell(
        config,
        layout=layout,
        machine_id=machine_id,
        leases=leases,
        journal=journal,
        clock=clock,
        approvals=approvals,
    )
    await shell.test()
    async with trio.open_nursery() as nursery:
        await nursery.start(shell.serve)
        try:
            yield shell
        finally:
            nursery.cancel_scope.cancel(reason="the shell closes")


async def _give_up(admission: Admission, scope: trio.CancelScope) -> None:
    """Withdraw a question once its claim is fenced."""
    await admission.interrupted.wait()
    scope.cancel(reason="the claim is fenced")


async def _keep_renewed(admission: Admission) -> None:
    """Use renews: a claim whose command runs is in use all the while."""
    ttl = (admission.claim.expires_at - admission.claim.heartbeat_at) / 1000
    while True:
        admission.touch()
        await trio.sleep(max(MIN_RENEWAL_S, min(MAX_RENEWAL_S, ttl / 3)))


def _least(asked: int | None, limit: int) -> int:
    return limit if asked is None else min(asked, limit)


def _ended(call_id: str, number: int, ended: Ended) -> dict[str, Any]:
    return {
        "call_id": call_id,
        "index": number,
        "how": ended.how,
        "exit": ended.exit_code,
        "stdout_bytes": ended.stdout_bytes,
        "stderr_bytes": ended.stderr_bytes,
    }
