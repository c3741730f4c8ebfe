"""The order in which one watcher is told things."""

from bodyd.stream.watcher import Watcher


async def test_what_is_said_in_order_comes_before_what_follows_it():
    """In place of an older one that waits: nobody is told later what was true before."""
    watcher = Watcher(sees=lambda: True, video=False)
    watcher.say("not yours", latest="state")
    watcher.say("pong", latest="pong")
    watcher.say_in_order("yours", latest="state")
    watcher.say("granted")
    assert [await watcher.next() for _ in range(3)] == ["yours", "granted", "pong"]


async def test_what_only_counts_as_the_latest_waits_for_the_rest():
    """And of several only the last is sent."""
    watcher = Watcher(sees=lambda: True, video=False)
    watcher.say("first", latest="state")
    watcher.say("done")
    watcher.say("second", latest="state")
    assert [await watcher.next() for _ in range(2)] == ["done", "second"]
