"""Clients that leave, come back, repeat themselves, or change their minds; and daemons that stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from bodyd_adapters.responses.runs import REMEMBERED

from bodyd import errors
from bodyd.contract.ports import Document

from .test_loop import kinds
from .world import OTHER, OWNER, PIXEL, World, computer, message, read, shell, world

BODY = {"model": "m", "input": "go", "tools": [{"type": "computer"}, {"type": "shell"}]}


async def leave(w: World, when: trio.Event, body: Any = None, **headers: str) -> None:
    """Ask, and go away without an answer once *when* is set."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: w.call("POST", "/v1/responses", body or BODY, **headers))
        await when.wait()
        nursery.cancel_scope.cancel(reason="the client left")


async def only_run(w: World):
    (run,) = w.adapter.gateway.runs._by_id.values()
    return run


async def test_a_retry_gets_the_finished_response(tmp_path: Path):
    """The SDK's retry (same body, retry-count) of an answer that was lost executes nothing again."""
    async with world(tmp_path, [computer()], [message("done")], computer="body") as w:
        first = await w.ask(body=BODY)
        again = await w.ask(body=BODY, x_stainless_retry_count="1")
        assert again == first
        assert len(w.body.acted) == 1
        assert len(w.model.requests) == 2


async def test_the_same_body_on_purpose_is_a_new_response(tmp_path: Path):
    """Without a retry's mark, a finished response is not repeated; nor for another token."""
    async with world(tmp_path, *[[message("x")]] * 3) as w:
        first = await w.ask(body=BODY)
        second = await w.ask(body=BODY)
        third = await w.ask(body=BODY, caller=OTHER, x_stainless_retry_count="1")
        assert len({first["id"], second["id"], third["id"]}) == 3


async def test_an_idempotency_key_names_a_response(tmp_path: Path):
    """The same key gets the same response; with another body it is a conflict."""
    async with world(tmp_path, [message("x")]) as w:
        first = await w.ask(body=BODY, idempotency_key="k")
        assert await w.ask(body=BODY, idempotency_key="k") == first
        with pytest.raises(errors.RequestConflict):
            await w.ask(body={**BODY, "input": "other"}, idempotency_key="k")


@pytest.mark.parametrize("how", [{"idempotency_key": "k"}, {"x_stainless_retry_count": "1"}])
async def test_two_that_ask_at_once_get_one_response(tmp_path: Path, how: dict[str, str]):
    """The second comes while the first one's history is read: it is the same response, executed once."""
    answers = [[message("before")], [computer()], [message("done", id="msg_2")]]
    async with world(tmp_path, *answers, computer="body") as w:
        first = await w.create()
        body = {**BODY, "previous_response_id": first["id"]}
        found: list[Any] = []

        async def ask() -> None:
            found.append(await w.ask(body=body, **how))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert len({one["id"] for one in found}) == 1
        assert len(w.model.requests) == 3
        assert w.executed == 1


async def test_a_client_that_comes_back_resumes(tmp_path: Path):
    """The loop waits for it between rounds, and goes on where it was: each action once."""
    hold = trio.Event()
    answers = [[computer(call_id="c1")], hold, [computer(call_id="c2")], [message("done")]]
    async with world(tmp_path, *answers, computer="body") as w:
        await leave(w, w.model.waiting)
        hold.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(w.body.acted) == 1, "nothing goes on without a client"
        response = await w.ask(body=BODY)
        assert response["status"] == "completed"
        assert len(w.body.acted) == 2


async def test_a_client_that_does_not_come_back_is_given_up(tmp_path: Path):
    """After rejoin_ms upstream is cancelled, the body given back, and the response recorded as cancelled."""
    async with world(tmp_path, [computer()], trio.Event(), computer="body", rejoin_ms=20) as w:
        await leave(w, w.model.waiting)
        run = await only_run(w)
        with trio.fail_after(10):
            await run.done.wait()
        assert run.response["status"] == "cancelled"
        assert w.model.cancelled == 1
        assert w.body.token is None
        stored = await w.store.get("response", run.id)
        assert stored is not None
        assert stored["response"]["status"] == "cancelled"


async def test_a_batch_that_was_cut_off_is_asked_for_by_its_id(tmp_path: Path):
    """A running batch drains when the client leaves; back again, the same request id goes to the door."""
    async with world(tmp_path, [computer()], [message("done")], computer="body") as w:
        w.body.slow = trio.Event()
        await leave(w, w.body.waiting)
        with trio.fail_after(10):
            await w.body.cancelled.wait()
        w.body.slow.set()
        response = await w.ask(body=BODY)
        assert response["status"] == "completed"
        assert len(w.body.acted) == 1
        assert list(w.body._receipts) == [f"{response['id']}/1/0"]


async def test_a_command_dies_with_its_client(tmp_path: Path):
    """A running command is cancelled at once; its outcome is recorded and not repeated."""
    async with world(tmp_path, [shell("hang", "ls")], [message("done")], shell="body") as w:
        await leave(w, w.shell.waiting)
        await trio.testing.wait_all_tasks_blocked()
        assert w.shell.cancelled == 1
        response = await w.ask(body=BODY)
        assert response["status"] == "completed"
        assert w.shell.ran == ["hang"]
        (chunk,) = w.model.requests[-1]["input"][2]["output"]
        assert chunk["outcome"] == {"type": "exit", "exit_code": 137}
        assert chunk["stdout"] == "begun\n"
        assert "client left" in chunk["stderr"]


async def test_a_dropped_stream_is_joined_from_the_start(tmp_path: Path):
    """The same request again streams the same response, from its first event."""
    hold = trio.Event()
    body = {**BODY, "stream": True}
    async with world(tmp_path, hold, [message("done")]) as w:
        reply = await w.call("POST", "/v1/responses", body)
        await anext(reply.stream)
        await reply.stream.aclose()
        hold.set()
        events = await read(await w.call("POST", "/v1/responses", body))
        assert events[0]["sequence_number"] == 0
        assert events[-1]["type"] == "response.completed"
        assert len(w.model.requests) == 1


async def test_a_stream_that_nobody_reads_is_given_up(tmp_path: Path):
    """A client that left before the first chunk was asked for holds nothing."""
    async with world(tmp_path, [message("x")], rejoin_ms=20) as w:
        reply = await w.call("POST", "/v1/responses", {**BODY, "stream": True})
        run = await only_run(w)
        with trio.fail_after(10):
            await run.done.wait()
        await reply.stream.aclose()
        assert run.response["status"] == "cancelled"
        assert w.model.requests == []


async def test_cancelling_stops_body_and_upstream_at_once(tmp_path: Path):
    """POST cancel returns a cancelled response with the batch drained and the body given back."""
    async with world(tmp_path, [computer()], computer="body") as w:
        w.body.slow = trio.Event()
        begun = await w.ask(body={**BODY, "background": True})
        assert begun["status"] == "queued"
        await w.body.waiting.wait()
        with trio.fail_after(5):
            cancelled = await w.ask(f"/v1/responses/{begun['id']}/cancel")
        assert cancelled["status"] == "cancelled"
        assert w.body.cancelled.is_set()
        assert w.body.token is None
        assert (await w.get(f"/v1/responses/{begun['id']}"))["status"] == "cancelled"
        w.model.answers.append([message("after")])
        after = await w.create("computer", previous_response_id=begun["id"], input="next")
        assert after["status"] == "completed"


async def test_only_background_responses_are_cancelled_by_id(tmp_path: Path):
    """As with OpenAI, a foreground response ends by closing its connection."""
    async with world(tmp_path, [message("x")]) as w:
        response = await w.create()
        with pytest.raises(errors.InvalidRequest):
            await w.call("POST", f"/v1/responses/{response['id']}/cancel")


async def test_background_responses_outlive_their_client(tmp_path: Path):
    """Nobody needs to stay connected; the result is fetched later."""
    async with world(tmp_path, [computer()], [message("done")], computer="body", rejoin_ms=1) as w:
        begun = await w.ask(body={**BODY, "background": True})
        run = await only_run(w)
        with trio.fail_after(10):
            await run.done.wait()
        response = await w.get(f"/v1/responses/{begun['id']}")
        assert response["status"] == "completed"
        assert response["background"] is True


async def test_a_stop_of_the_gateway_ends_what_is_being_made(tmp_path: Path):
    """A background response has failed, and says that a restart did it; the body is given back."""
    async with world(tmp_path, [computer()], trio.Event(), computer="body") as w:
        begun = await w.ask(body={**BODY, "background": True})
        await w.model.waiting.wait()
    assert w.body.token is None
    async with world(tmp_path) as w:
        response = await w.get(f"/v1/responses/{begun['id']}")
        assert response["status"] == "failed"
        assert response["error"]["type"] == "daemon_restarted"


async def test_a_kill_of_the_daemon_is_told_afterwards(tmp_path: Path):
    """A background response that a crash cut off has failed once the daemon is back."""
    async with world(tmp_path, trio.Event()) as w:
        begun = await w.ask(body={**BODY, "background": True})
        await w.model.waiting.wait()
        kept = await w.store.get("response", begun["id"])
        mark = await w.store.get("running", begun["id"])
    assert kept is not None
    assert mark is not None
    async with world(tmp_path) as w:  # as the crash left it
        parts = (*kept["history"], *kept["input"])
        await w.store.put(
            [Document("response", begun["id"], kept, parts=parts), Document("running", begun["id"], mark)]
        )
    async with world(tmp_path) as w:
        response = await w.get(f"/v1/responses/{begun['id']}")
        assert (response["status"], response["error"]["type"]) == ("failed", "daemon_restarted")
        assert await w.store.keys("running") == []


async def test_wall_time_runs_out(tmp_path: Path):
    """A response that takes too long has failed, by name, with upstream cancelled."""
    async with world(tmp_path, trio.Event(), max_wall_ms=20) as w:
        response = await w.create()
        assert response["error"]["type"] == "wall_time_exceeded"
        assert w.model.cancelled == 1


async def test_a_conversation_takes_one_response_at_a_time(tmp_path: Path):
    """A parallel request of the same conversation is refused; afterwards it goes on."""
    async with world(tmp_path, hold := trio.Event(), [message("one")], [message("two")]) as w:
        conversation = await w.ask("/v1/conversations", {})
        body = {"model": "m", "input": "a", "conversation": conversation["id"]}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: w.ask(body=body))
            await w.model.waiting.wait()
            with pytest.raises(errors.ConversationBusy):
                await w.ask(body={**body, "input": "b"})
            hold.set()
        await w.ask(body={**body, "input": "c"})
        assert kinds(w.model.requests[-1]["input"]) == ["message"] * 3


async def test_a_parallel_branch_does_not_share_the_body(tmp_path: Path):
    """Two responses of one chain: the second that wants the body fails as conversation_busy."""
    answers = [[message("root")], [computer(call_id="c1")], hold := trio.Event(), [computer(call_id="c2")]]
    async with world(tmp_path, *answers, [message("x")], computer="body") as w:
        root = await w.create("computer")
        body = {**BODY, "previous_response_id": root["id"], "background": True}
        first = await w.ask(body=body)
        await w.model.waiting.wait()
        w.model.answers.insert(0, [computer(call_id="c3")])
        second = await w.ask(body={**body, "background": False, "input": "meanwhile"})
        assert second["error"]["type"] == "conversation_busy"
        hold.set()
        run = w.adapter.gateway.runs.get(first["id"])
        with trio.fail_after(10):
            await run.done.wait()
        assert run.response["status"] == "completed"


async def test_who_may_read(tmp_path: Path):
    """The token that made a response, and the owner; for anyone else it is not there."""
    async with world(tmp_path, [message("secret")], [message("mine")]) as w:
        response = await w.create()
        for path in (f"/v1/responses/{response['id']}", f"/v1/responses/{response['id']}/input_items"):
            await w.get(path)
            await w.get(path, caller=OWNER)
            with pytest.raises(errors.NotFound):
                await w.get(path, caller=OTHER)
        with pytest.raises(errors.PreviousResponseNotFound):
            await w.ask(body={**BODY, "previous_response_id": response["id"]}, caller=OTHER)
        reference = {"type": "item_reference", "id": response["output"][0]["id"]}
        with pytest.raises(errors.InvalidRequest):
            await w.ask(body={**BODY, "input": [reference]}, caller=OTHER)
        with pytest.raises(errors.NotFound):
            await w.call("DELETE", f"/v1/responses/{response['id']}", caller=OTHER)


async def test_store_false_leaves_nothing(tmp_path: Path):
    """It is answered and not kept; nor can it be continued."""
    async with world(tmp_path, [message("x")]) as w:
        response = await w.create(store=False)
        assert response["store"] is False
        assert await w.store.keys("response") == []
        assert await w.store.keys("item") == []
        with pytest.raises(errors.PreviousResponseNotFound):
            await w.create(previous_response_id=response["id"])


async def test_ended_responses_do_not_pile_up(tmp_path: Path):
    """Only so many are remembered, without their pictures; older ones are read from the store."""
    picture = {"type": "input_image", "image_url": PIXEL}
    said = {"role": "user", "content": [picture]}
    async with world(tmp_path, *[[message("x")]] * (REMEMBERED + 3)) as w:
        first = await w.create(input=[said])
        for number in range(REMEMBERED + 2):
            await w.create(metadata={"n": str(number)})
        runs = w.adapter.gateway.runs._by_id
        assert len(runs) <= REMEMBERED + 2
        assert first["id"] not in runs
        assert not any(run.loop.images or run.prepared.images for run in runs.values())
        assert (await w.get(f"/v1/responses/{first['id']}"))["id"] == first["id"]
