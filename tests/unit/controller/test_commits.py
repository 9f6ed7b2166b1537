"""Decided and committed metadata: changes wait, commit in their order, or are dropped with all after them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from actors.controller.metadata.commits import Commit, DecidedMetadata, NotControllerError
from placement.metadata import ClusterMetadata
from placement.records import ClusterRecord, ProducerIdsRecord, Record, RemoveTopicRecord


class World:
    """States, and the news of each change, in the order of their coming."""

    def __init__(self) -> None:
        self.states = DecidedMetadata(ClusterMetadata())
        self.heard: list[str] = []

    def decide(self, name: str, *records: Record) -> Commit:
        commit = self.states.decide(records)
        commit.then(lambda: self.heard.append(name), lambda: self.heard.append(f"not {name}"))
        return commit

    @property
    def ids(self) -> tuple[int, int]:
        """The producer ids that are decided, and those that have committed."""
        return self.states.decided.next_producer_id, self.states.committed.next_producer_id


def test_changes_commit_in_their_order_up_to_an_index() -> None:
    w = World()
    one = w.decide("one", ProducerIdsRecord(1), ProducerIdsRecord(2))
    two = w.decide("two", ProducerIdsRecord(3))
    three = w.decide("three", ProducerIdsRecord(4))
    assert (one.index, two.index, three.index, w.ids, w.heard) == (2, 3, 4, (4, 0), [])
    w.states.commit(1)
    assert (w.ids, w.heard) == ((4, 0), []), "half of a change never commits"
    w.states.commit(3)
    assert (w.ids, w.heard, [each.done for each in (one, two, three)]) == ((4, 3), ["one", "two"], [True, True, False])
    w.states.commit(4)
    assert w.states.decided == w.states.committed


def test_what_is_dropped_takes_all_after_it_along_and_what_comes_then_follows_the_committed() -> None:
    w = World()
    w.decide("one", ProducerIdsRecord(1))
    w.states.commit(1)
    w.decide("two", ProducerIdsRecord(2))
    w.decide("three", ProducerIdsRecord(3))
    w.states.drop()
    assert (w.ids, w.heard) == ((1, 1), ["one", "not two", "not three"])
    assert w.decide("four", ProducerIdsRecord(9)).index == 2


def test_a_record_that_cannot_be_applied_leaves_what_was_decided_before() -> None:
    w = World()
    w.decide("one", ProducerIdsRecord(1))
    with pytest.raises(KeyError):
        w.decide("wrong", ClusterRecord("c"), RemoveTopicRecord("no such topic"))
    assert (w.ids, w.states.decided.cluster_id, w.states.decided.version) == ((1, 0), "", 1)
    w.states.commit(1)
    assert w.heard == ["one"]


def test_what_could_not_be_appended_is_forgotten_alone() -> None:
    w = World()
    w.decide("one", ProducerIdsRecord(1))
    w.states.decide([ProducerIdsRecord(2)])
    w.states.take_back()
    assert (w.ids, w.states.end.index) == ((1, 0), 1)
    w.states.commit(1)
    assert (w.ids, w.heard) == ((1, 1), ["one"])


def test_a_change_that_is_decided_when_another_has_committed_comes_after_it() -> None:
    w = World()
    first = w.states.decide([ProducerIdsRecord(1)])
    first.then(lambda: w.heard.append(f"first at {w.ids}"))
    first.then(lambda: w.states.commit(w.decide("next", ProducerIdsRecord(2)).index))
    w.states.commit(1)
    assert w.heard == ["first at (1, 1)", "next"]
    assert w.ids == (2, 2)


def test_who_asks_late_is_told_at_once() -> None:
    w = World()
    commit = w.states.decide([ProducerIdsRecord(1)])
    dropped = w.states.decide([ProducerIdsRecord(2)])
    w.states.commit(1)
    w.states.drop()
    commit.then(lambda: w.heard.append("committed"))
    dropped.then(lambda: w.heard.append("never"), lambda: w.heard.append("dropped"))
    dropped.then(lambda: w.heard.append("never"))
    assert w.heard == ["committed", "dropped"]
    assert (w.states.end.done, w.states.end.index) == (True, 1), "nothing is waited for"


class Bug(Exception):  # noqa: N818 - it stands for any
    """An error that only a bug raises."""


def failing(name: str) -> Callable[[], None]:
    def fail() -> None:
        raise Bug(name)

    return fail


@pytest.mark.parametrize("committed", [True, False])
def test_one_who_waits_and_meets_a_bug_keeps_nobody_else_from_being_told(committed: bool) -> None:
    w = World()
    for name in ("one", "two"):
        commit = w.decide(name, ProducerIdsRecord(1))
        commit.then(failing(name), failing(name))
        commit.then(partial(w.heard.append, f"{name} again"), partial(w.heard.append, f"not {name} again"))
    with pytest.raises(Bug, match="one"):
        w.states.commit(2) if committed else w.states.drop()
    told = ["one", "one again", "two", "two again"]
    assert w.heard == (told if committed else [f"not {name}" for name in told])
    assert w.ids == ((1, 1) if committed else (0, 0))
    assert w.states.end.done


def test_what_a_caller_does_with_its_list_later_changes_nothing_that_was_decided() -> None:
    w = World()
    records: list[Record] = [ProducerIdsRecord(1)]
    w.states.decide(records)
    records[:] = [ProducerIdsRecord(2), ProducerIdsRecord(3)]
    w.states.commit(1)
    assert w.ids == (1, 1)
    assert w.states.committed == w.states.decided


async def test_the_end_can_be_waited_for() -> None:
    w = World()
    await w.states.end.wait()
    commit = w.states.decide([ProducerIdsRecord(1)])
    assert w.states.end is commit
    waiting = asyncio.gather(commit.wait(), commit.wait())
    await asyncio.sleep(0)
    w.states.commit(1)
    await waiting
    lost = w.states.decide([ProducerIdsRecord(2)])
    waiting = asyncio.gather(lost.wait(), lost.wait(), return_exceptions=True)
    given_up = asyncio.ensure_future(lost.wait())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    w.states.drop()
    assert [type(each) for each in await waiting] == [NotControllerError] * 2
