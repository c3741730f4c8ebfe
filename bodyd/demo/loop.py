"""The loop that every computer-use client has, and how it ends: ask, act, show, until it is done."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from bodyd import errors
from bodyd.client import BodyClient, ClientLease
from bodyd.contract.ends import End
from bodyd.contract.ports import UpstreamPort

from .lines import lines, message, printable
from .parts import Site, Verdict, load_upstream

Json = dict[str, Any]
Report = Callable[[str], None]
Grade = Callable[[], Awaitable[Verdict]]

MAX_ROUNDS = 24
SHOWN_WITHIN = 20.0  # seconds for the body's browser to paint the site
RELEASED_WITHIN = 5.0  # seconds for the lease to be given back


async def run(client: BodyClient, site: Site, *, out: Path, report: Report, model: str = "scripted") -> End:
    """The whole demo on a body whose configuration came from `site.configure`."""
    upstream = load_upstream(model)
    with trio.move_on_after(SHOWN_WITHIN) as scope:
        await site.until_shown()
    if scope.cancelled_caught:
        report(f"the page has not been painted within {SHOWN_WITHIN:.0f} s; going on all the same")
    return await run_demo(client, upstream, task=site.task, grade=site.grade, out=out, report=report)


async def run_demo(
    client: BodyClient, upstream: UpstreamPort, *, task: str, grade: Grade, out: Path, report: Report
) -> End:
    """Let *upstream* do *task* on the body; COMPLETED only if *grade* agrees.

    Args:
        out: The folder that gets before.png and after.png.
        report: Takes one line at a time: each action with its receipt, and how it ended.
    Cancellation:
        The lease is released (bounded) on every way out.
    """
    report(f"task     {printable(task, 300)}")
    conversation = f"demo-{secrets.token_hex(6)}"
    try:
        lease = await client.acquire(conversation)
        try:
            report(f"before   {await _save(client, out, 'before.png')}")
            end = await _converse(lease, upstream, task=task, conversation=conversation, report=report)
            report(f"after    {await _save(client, out, 'after.png')}")
        finally:
            with trio.move_on_after(RELEASED_WITHIN, shield=True):
                await _release(lease, report)
    except errors.BodydError as exc:
        report(f"error    {exc.code}: {printable(exc.message, 300)}")
        return end_of(exc)
    return await _judge(end, grade, report)


async def _judge(end: End, grade: Grade, report: Report) -> End:
    verdict = await grade()
    report("grader   the task is done" if verdict.success else "grader   the task is not done")
    for reason in verdict.reasons:
        report(f"grader   {printable(reason, 200)}")
    if end is not End.COMPLETED:
        report(f"end      {end.value}")
        return end
    return End.COMPLETED if verdict.success else End.FAILED


async def _converse(
    lease: ClientLease, upstream: UpstreamPort, *, task: str, conversation: str, report: Report
) -> End:
    items: list[Json] = [{"role": "user", "content": task}]
    for number in range(1, MAX_ROUNDS + 1):
        request = {"model": "demo", "tools": [{"type": "computer"}], "input": items}
        output = (await upstream.respond(request))["output"]
        items += output
        calls = [item for item in output if item.get("type") == "computer_call"]
        if not calls:
            report(f"model    {printable(message(output), 400)}")
            return End.COMPLETED
        for index, call in enumerate(calls):
            if call.get("pending_safety_checks"):
                report("model    asks for a safety check to be acknowledged, which only an owner can do")
                return End.OWNER_REQUIRED
            result = await lease.computer_call(call, request_id=f"{conversation}/{number}/{index}")
            for line in lines(call, result.receipts):
                report(f"{number:>3}      {line}")
            items.append(result.item)
    report(f"model    is not done after {MAX_ROUNDS} rounds")
    return End.TOOL_LIMIT


def end_of(error: errors.BodydError) -> End:
    """How a loop ends that met *error*."""
    match error:
        case errors.Unavailable() | errors.Busy() | errors.QueueFull() | errors.IsolationUnavailable():
            return End.UNAVAILABLE
        case errors.StaleLease() | errors.StaleEpoch() | errors.BodyStopped() | errors.PersonDriving():
            return End.REVOKED
        case errors.ApprovalRequired() | errors.PolicyRefused():
            return End.OWNER_REQUIRED
        case _:
            return End.FAILED


async def _release(lease: ClientLease, report: Report) -> None:
    try:
        await lease.release()
    except errors.BodydError as exc:
        report(f"error    the lease could not be released: {printable(exc.message, 300)}")


async def _save(client: BodyClient, out: Path, name: str) -> Path:
    """What the screen shows now, as a PNG in *out*."""
    shot = await client.screenshot()
    path = out / name
    await trio.Path(out).mkdir(parents=True, exist_ok=True)
    await trio.Path(path).write_bytes(await client.image(shot.screenshot_id))
    return path
