"""A member whose brokers go away says so while it runs, and does not wait for them when it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from actors.client import TopicPartition
from actors.client.errors import KafkaTimeoutError
from actors.links.member import MemberReport
from actors.members.logs.journal import Journal
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.members.pools.hindered import Hindered
from actors.members.pools.slots import Slot, Together, Version
from actors.runtime.environment import REAL, Clock, Environment
from tests.support.client_broker import ScriptedBroker, broker
from tests.support.consuming import wait_for
from tests.support.member import T0, Flaky, Member, record
from tests.support.pool_slots import Actors

SPEC = MemberSpec(("t",), "g", "host:1")


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t")
        yield running


def test_a_member_without_brokers_ran_without_an_error(kafka: ScriptedBroker) -> None:
    ahead_ms = 0
    environment = Environment(Clock(monotonic_ms=lambda: REAL.clock.monotonic_ms() + ahead_ms))
    kafka.append("t", 0, b"a")
    spec = MemberSpec(("t",), "g", kafka.bootstrap_servers, options={"group_instance_id": "g-0"})
    member = MemberLoop(spec, lambda record: None, environment=environment)
    running = threading.Thread(target=member.run)
    running.start()
    try:
        wait_for(lambda: kafka.committed.get(TopicPartition("t", 0)) == 1)
        assert member.report().error is None
        kafka.close()
        unreachable = "no broker can be reached; check bootstrap_servers"
        wait_for(lambda: unreachable in (member.consumer.hindrance(grace_ms=0) or ""))
        ahead_ms = 3_000
        report = member.report()
        assert report.state == "Running"
        assert unreachable in (report.error or "")
    finally:
        member.stop()
        running.join(60)
    assert member.report().state == "Stopped"


@pytest.mark.parametrize(("hindered", "commits"), [("no broker can be reached", [100]), (None, [2_000] * 10)])
def test_a_member_that_ended_waited_a_minute_for_brokers_that_were_away(
    hindered: str | None, commits: list[int]
) -> None:
    member = Member(Flaky().one, [{T0: [record(1)]}])
    member.consumer.hindered = hindered
    member.consumer.commit_error = KafkaTimeoutError("nobody answers")
    member.run()
    assert member.consumer.commit_timeouts == commits
    assert member.log[-1] == "consumer closed"


def test_a_pool_says_once_what_keeps_records_from_a_member(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    slot = Slot(0, "g-0", Together(1), Version(SPEC, Actors()))
    journal = Journal(REAL.clock.wall_ms)
    follows = Hindered(journal, slot)
    for error in (None, "no broker answers", "no broker answers for long", None, None):
        follows.hear(MemberReport("Running", error))
    follows.hear(MemberReport("Failed", "the handler failed"))
    assert [each.getMessage() for each in caplog.records] == [
        "slot 0 of group g gets no records: no broker answers",
        "slot 0 of group g can get records again",
    ]
