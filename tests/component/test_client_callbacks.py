"""A program's listener or assignor raises: `poll` raises an error of ours that says where, and works again after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.client import Consumer, ConsumerRebalanceListener, TopicPartition
from actors.client.errors import CallbackError, CommitFailedError
from actors.client.group.assignors import BUILT_IN
from actors.client.group.callbacks import named, wrapped
from actors.client.group.classic.standing import MemberState
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker
from tests.support.consuming import Watched

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t", 2)
        yield running


class Fails(ConsumerRebalanceListener):
    """Raises once, in the event of that name, and notes all it is told."""

    def __init__(self, event: str, error: Exception) -> None:
        self.event, self.error = event, error
        self.calls: list[str] = []

    def _heard(self, event: str) -> None:
        self.calls.append(event)
        if event == self.event and self.calls.count(event) == 1:
            raise self.error

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._heard("on_partitions_assigned")

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._heard("on_partitions_revoked" if revoked else "nothing revoked")

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._heard("on_partitions_lost")


def poll_until(reader: Consumer, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        reader.poll(20)


def member_of(kafka: ScriptedBroker, **settings: Any) -> Watched:
    return Watched(
        group_id="g",
        bootstrap_servers=kafka.bootstrap_servers,
        heartbeat_interval_ms=50,
        retry_backoff_ms=20,
        fetch_max_wait_ms=50,
        **settings,
    )


def assert_well(reader: Watched, kafka: ScriptedBroker) -> None:
    """The member goes on in a place that it and the coordinator agree on."""
    poll_until(reader, lambda: reader.member.settled)
    assert reader.assignment() == {T0, T1} == reader.member.owned
    assert reader.member.state is MemberState.STABLE
    assert reader.group_metadata().generation_id == kafka.generation
    reader.commit({T0: 5})
    assert kafka.committed[T0] == 5


@pytest.mark.parametrize("event", ["on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost"])
def test_what_a_listener_raises_names_callback_and_partitions_and_the_membership_goes_on(kafka, event):
    mine = ValueError("mine")
    listener = Fails(event, mine)
    with member_of(kafka) as reader:
        reader.subscribe(["t"], listener=listener)
        if event != "on_partitions_assigned":
            poll_until(reader, reader.assignment)
            code = 27 if event == "on_partitions_revoked" else 25
            kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=code))
        with pytest.raises(CallbackError, match=rf"{event} of t-0, t-1 raised ValueError\('mine'\)") as raised:
            poll_until(reader, lambda: False)
        assert raised.value.__cause__ is mine
        assert_well(reader, kafka)
        assert listener.calls.count(event) == 1, "told once"


def test_an_error_of_the_clients_own_stays_what_it_is_and_says_where_it_came_from(kafka):
    mine = CommitFailedError("too late")
    with member_of(kafka) as reader:
        reader.subscribe(["t"], listener=Fails("on_partitions_assigned", mine))
        with pytest.raises(CommitFailedError) as raised:
            poll_until(reader, lambda: False)
        assert raised.value is mine
        assert mine.__notes__ == ["raised by on_partitions_assigned of t-0, t-1"]
        assert_well(reader, kafka)


@pytest.mark.parametrize("goodbye", [Consumer.unsubscribe, Consumer.close])
def test_what_a_listener_raises_at_the_end_is_wrapped_too(kafka, goodbye):
    with member_of(kafka) as reader:
        reader.subscribe(["t"], listener=Fails("on_partitions_revoked", ValueError("mine")))
        poll_until(reader, reader.assignment)
        with pytest.raises(CallbackError, match="on_partitions_revoked of t-0, t-1"):
            goodbye(reader)
    assert len(kafka.requests(m.LeaveGroupRequest)) == 1


@pytest.mark.parametrize(
    ("method", "doing"),
    [
        ("assign", "dividing partitions with the assignor 'range'"),
        ("on_assignment", "on_assignment of the assignor 'range'"),
        ("user_data", "the user data of an assignor"),
    ],
)
def test_what_an_assignor_raises_says_what_it_was_asked_and_the_membership_goes_on(kafka, monkeypatch, method, doing):
    mine = ValueError("mine")
    whole = getattr(BUILT_IN["range"], method)

    def fails_once(*arguments: Any) -> Any:
        monkeypatch.setattr(BUILT_IN["range"], method, whole)
        raise mine

    monkeypatch.setattr(BUILT_IN["range"], method, fails_once)
    with member_of(kafka, partition_assignment_strategy=["range"]) as reader:
        reader.subscribe(["t"])
        with pytest.raises(CallbackError, match=rf"{doing} raised ValueError\('mine'\)") as raised:
            poll_until(reader, lambda: False)
        assert raised.value.__cause__ is mine
        assert_well(reader, kafka)


def test_many_partitions_are_not_all_named():
    many = [TopicPartition("t", n) for n in range(1_000)]
    assert named(many).endswith("t-19 and 980 more")
    assert named([]) == "nothing"
    assert "of nothing" in str(wrapped(ValueError(), f"on_partitions_revoked of {named([])}"))
