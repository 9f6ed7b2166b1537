"""Pools of an earlier release get seals that cover their names, and stay as they were wished."""

from __future__ import annotations

from dataclasses import replace

from actors.links.pool_seals import Old
from actors.members.deployment.records import Good, Pause, Size
from actors.members.deployment.sealing_anew import seal_anew
from tests.support.pools_topic import FIRST, MemoryTopic

SECOND = replace(FIRST, id="b", version=2, seal=b"old")


class Controller:
    """Believes in old seals, and gives new ones."""

    def __init__(self) -> None:
        self.asked: tuple[Old, ...] = ()

    def seal_anew(self, versions: tuple[Old, ...]) -> dict[bytes, bytes]:
        self.asked = versions
        return {old.version.digest: b"new" for old in versions if old.seal in (b"old", b"new")}


def test_versions_are_written_with_new_seals_and_a_later_size_holds_still() -> None:
    topic, controller = MemoryTopic(), Controller()
    good = replace(FIRST, seal=b"old")
    topic.write("p", good, Good("one", good), SECOND, Size("one", 7), Pause("one", True))
    topic.write("forged", replace(FIRST, incarnation="three", seal=b"else"))
    topic.write("elsewhere", replace(FIRST, incarnation="four", at_home=False, seal=b"old"))
    before = topic.pool("p")
    with topic.follow() as following:
        assert seal_anew(following.book, controller, topic)
    after = topic.pool("p")
    assert before is not None
    assert after is not None
    assert (after.size, after.paused, after.scaled_last) == (before.size, True, True)
    assert after.deployment == replace(SECOND, seal=b"new")
    assert after.good == replace(good, seal=b"new")
    asked = [(old.name, old.version.version, old.good) for old in controller.asked]
    assert asked == [("forged", 1, False), ("p", 2, False), ("p", 1, True)]
    with topic.follow() as following:
        assert not seal_anew(following.book, controller, topic), "what has its seal is not written again"
