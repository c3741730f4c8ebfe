"""Running a proof of quiescence, and saying in time what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from bodyd.errors import BodydError

Proof = Callable[[], Awaitable[bool]]


async def attempt(prove: Proof, seconds: float, report: Callable[[str | None], None]) -> None:
    """Report exactly once, within *seconds*: None if *prove* says yes, else why not.

    The report is in time even if *prove* does not end on being cancelled (a thread that hangs in a
    frozen X server); this function then ends with it, later.

    Cancellation:
        Nothing is reported.
    """
    reported = False

    def once(failure: str | None) -> None:
        nonlocal reported
        if not reported:
            reported = True
            report(failure)

    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            await trio.sleep(seconds)
            once(f"no proof within {seconds:g} s")
            nursery.cancel_scope.cancel(reason="the proof is overdue")

        nursery.start_soon(give_up)
        once(await _failure(prove))
        nursery.cancel_scope.cancel(reason="the proof is in")


async def _failure(prove: Proof) -> str | None:
    try:
        return None if await prove() else "not quiet"
    except BodydError as exc:
        return f"{type(exc).__name__}: {exc}"
    except Exception as exc:  # a bug in the prover proves nothing either
        return type(exc).__name__
