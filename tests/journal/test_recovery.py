"""What a restart makes of unfinished batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bodyd.contract.receipts import Outcome
from bodyd.journal.intents import make_intent
from bodyd.journal.recovery import REASON, Recovered, Unfinished, recover
from bodyd.journal.traces import SLOTS, encode

from .batches import CLICK, KEY, NOW, request

THREE = (CLICK, {"type": "type", "text": "hello"}, {"type": "wait", "ms": 100})


def unfinished(sequence: int = 1, *inputs: dict[str, object]) -> Unfinished:
    intent = make_intent(
        request(f"req-{sequence}", *(inputs or THREE)),
        conversation_id="conv",
        lease_id="lease",
        created_at=NOW,
        key=KEY,
    )
    return Unfinished(sequence, intent)


def recovered(word: int = 0, *, trusted: bool = True, sequence: int = 1, now: int = NOW + 5) -> Recovered:
    words = [0] * SLOTS
    words[sequence % SLOTS] = word
    [result] = recover([unfinished(sequence)], words, trusted=trusted, now=now)
    return result


def deliveries(result: Recovered) -> list[tuple[str, int, str | None]]:
    return [
        (i.delivery.outcome.value, i.delivery.sent.units, i.delivery.reason) for i in result.receipt.inputs
    ]


def test_a_batch_that_never_started_was_not_attempted():
    """Nothing was sent, and that is proved."""
    result = recovered()
    assert deliveries(result) == [("failed", 0, "not_attempted")] * 3
    assert result.receipt.outcome is Outcome.FAILED
    assert (result.receipt.reason, result.receipt.settled) == (REASON, False)
    assert result.proof == "never_started"


def test_a_batch_that_stopped_between_inputs_is_known_exactly():
    """Confirmed up to there (it would not have gone on otherwise), nothing after."""
    result = recovered(encode(1, 1, 0, exact=True))
    assert deliveries(result) == [
        ("confirmed", 3, None),
        ("failed", 0, "not_attempted"),
        ("failed", 0, "not_attempted"),
    ]
    assert result.receipt.inputs[0].effect.outcome is Outcome.UNCERTAIN
    assert result.proof == "exactly 0 units of input 1"


def test_an_atom_that_may_have_been_on_the_wire_is_uncertain():
    """At least two characters arrived; whether the third did can't be known."""
    result = recovered(encode(1, 1, 2, exact=False))
    assert deliveries(result) == [
        ("confirmed", 3, None),
        ("uncertain", 2, REASON),
        ("failed", 0, "not_attempted"),
    ]
    assert result.receipt.outcome is Outcome.UNCERTAIN
    assert result.proof == "at least 2 units of input 1"


def test_an_input_that_stopped_between_atoms_failed_with_its_count():
    """Two characters of five, and no third was on its way."""
    result = recovered(encode(1, 1, 2, exact=True))
    assert deliveries(result)[1] == ("failed", 2, REASON)
    assert result.receipt.inputs[1].effect.outcome is Outcome.UNCERTAIN


def test_an_input_that_was_sent_whole_but_not_read_back_is_uncertain():
    """Confirmed needs the readback, failed needs something missing."""
    assert deliveries(recovered(encode(1, 1, 5, exact=True)))[1] == ("uncertain", 5, REASON)


def test_a_batch_that_was_sent_whole_is_confirmed_in_delivery_alone():
    """The kill came while it settled: what it did was never seen."""
    result = recovered(encode(1, 3, 0, exact=True))
    assert [d[0] for d in deliveries(result)] == ["confirmed"] * 3
    assert [i.effect.outcome for i in result.receipt.inputs] == [Outcome.UNCERTAIN, Outcome.UNCERTAIN, None]
    assert result.receipt.outcome is Outcome.UNCERTAIN
    assert result.receipt.delivery is Outcome.CONFIRMED


def test_without_its_trace_a_batch_is_uncertain_throughout():
    """A later batch took the slot."""
    result = recovered(encode(1 + SLOTS, 0, 0, exact=True))
    assert deliveries(result) == [("uncertain", 0, REASON)] * 3
    assert result.proof == "overwritten"


def test_after_the_machine_went_down_a_trace_is_a_lower_bound():
    """The last stores may never have reached the disk: nothing is proved not to have happened."""
    result = recovered(encode(1, 1, 2, exact=True), trusted=False)
    assert deliveries(result) == [("confirmed", 3, None), ("uncertain", 2, REASON), ("uncertain", 0, REASON)]
    assert result.proof == "at least 2 units of input 1"
    nothing = recovered(trusted=False)
    assert deliveries(nothing) == [("uncertain", 0, REASON)] * 3
    assert nothing.proof == "no trace outlived the machine's restart"


def test_a_clock_that_went_back_does_not_end_a_batch_before_its_start():
    """Times of a receipt are in order."""
    assert recovered(now=NOW - 1000).receipt.completed_at == NOW


@given(st.lists(st.integers(1, 200), unique=True, max_size=4), st.booleans(), st.data())
def test_every_unfinished_batch_gets_one_receipt_that_claims_no_more_than_its_trace(sequences, trusted, data):
    """Whatever is in the file: units never exceed the input's, and only what is proved is not uncertain."""
    words = [0] * SLOTS
    for sequence in sequences:
        age, index, units, exact = data.draw(
            st.tuples(st.integers(-1, 1), st.integers(0, 4), st.integers(0, 9), st.booleans())
        )
        if sequence + age * SLOTS > 0:
            words[sequence % SLOTS] = encode(sequence + age * SLOTS, index, units, exact=exact)
    results = recover([unfinished(s) for s in sequences], words, trusted=trusted, now=NOW)
    assert [r.receipt.request_id for r in results] == [f"req-{s}" for s in sequences]
    for result in results:
        outcomes = [i.delivery.outcome for i in result.receipt.inputs]
        assert len(outcomes) == len(THREE)
        assert outcomes == sorted(outcomes, key=[Outcome.CONFIRMED, Outcome.UNCERTAIN, Outcome.FAILED].index)
        for item in result.receipt.inputs:
            assert item.delivery.sent.units <= item.delivery.sent.of
            assert trusted or item.delivery.outcome is not Outcome.FAILED
