"""The process of an offsets partition, over a real Unix socket; the test plays the broker."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from actors.coordinator.groups.messages import ListedGroup, MaySleepResponse
from actors.coordinator.groups.metrics import GroupMetrics
from actors.coordinator.metrics import Metrics
from actors.links.group_status import ClassicStatus
from actors.links.known_topics import DeletedTopics
from actors.links.relay import PAYLOADS, Figures, Greeting, Kind
from actors.offsets_partition.process import ShardProcess
from actors.records.reading import iter_key_values
from actors.wire import messages
from actors.wire.errors import ErrorCode
from tests.support.runtime_helpers import until
from tests.support.shard_broker import TOPICS, Commit, FakeBroker, Fetch, commit, join, process


async def test_a_process_says_who_it_is_and_waits(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        hello = PAYLOADS.read(Greeting, broker.of(Kind.HELLO)[0][2])
        assert hello.pid > 0
        assert hello.code_version == "tests"
        broker.link.send(Kind.PING)
        figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2])
        assert figures.requests == 0


async def test_a_commit_is_answered_once_it_is_below_the_high_watermark(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.appends = False
        slot = broker.ask(commit(7), 8)
        _, number, batch = await broker.hear(Kind.APPEND)
        payload = (0).to_bytes(8, "big") + (1).to_bytes(8, "big")
        broker.link.send(Kind.APPENDED, 3, number, payload)
        broker.link.send(Kind.PING)
        await broker.hear(Kind.PONG)
        assert not broker.answered(slot), "appended, but not yet safe"
        broker.link.send(Kind.HIGH_WATERMARK, 0, 1)
        answer = await broker.answer(slot)
        assert answer.topics[0].partitions[0].error_code == 0
        assert len(list(iter_key_values(batch))) == 1


async def test_what_a_broker_asks_for_one_client_does_not_wait_for_commits_of_others(tmp_path: Path) -> None:
    """With ACLs the broker commits for clients; if there are many of them, some commit is always open."""
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.appends = False
        open_commit = broker.ask(commit(7), 8, connection=0)
        await broker.hear(Kind.APPEND)
        answer = await broker.answer(broker.ask(Fetch(group_id="other", topics=None), 7, connection=0))
        assert answer.error_code == 0
        assert not broker.answered(open_commit)


async def test_commits_of_one_turn_share_one_append(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        slots = [broker.ask(commit(i, group=f"g{i}"), 8, connection=i + 1) for i in range(20)]
        for slot in slots:
            assert (await broker.answer(slot)).topics[0].partitions[0].error_code == 0
        assert len(broker.of(Kind.APPEND)) < 5
        assert broker.keys() == 20


async def test_what_was_acknowledged_is_there_after_a_load(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        for offset in (3, 5, 9):
            await broker.commit(offset)
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        await broker.serving()
        assert await broker.committed() == {0: 9}
        assert len(broker.of(Kind.LOAD_MORE)) == len(broker.log), "one piece asked for as each is taken in"


async def test_a_broker_is_sent_all_that_a_shard_counts(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        await broker.commit(3)
        await broker.commit(5)
        broker.link.send(Kind.PING)
        figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2])
        assert set(figures.counters) == {each.name for kind in (Metrics, GroupMetrics) for each in fields(kind)}
        assert (figures.requests, figures.counters["offset_commits"], figures.offsets) == (2, 2, 1)
        assert (figures.state, figures.groups, figures.counters["appends_committed"]) == ("Active", {"Empty": 1}, 2)


async def test_a_broker_may_ask_what_a_group_waits_for(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        answer = await broker.answer(broker.ask(join(), 3))
        for number, group in enumerate((b"g", b"no such group"), 1):
            broker.link.send(Kind.DESCRIBE, 0, 70 + number, group)
            await broker.hear(Kind.DESCRIBED, number)
        (_, first, payload), (_, second, nothing) = broker.of(Kind.DESCRIBED)
        assert (first, second, nothing) == (71, 72, b"")
        status = PAYLOADS.read(ClassicStatus, payload)
        assert (status.generation_id, status.awaited_members) == (1, (answer.member_id,))
        assert [(each.epoch, each.member_id) for each in status.rebalances] == [(0, answer.member_id)]


@pytest.mark.conformance("C-09")
async def test_a_topic_nobody_has_is_refused_within_a_commit(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        known, unknown = commit(1), commit(2, "nowhere")
        assert isinstance(known, Commit)
        assert isinstance(unknown, Commit)
        both = Commit(group_id="g", generation_id_or_member_epoch=-1, topics=[*known.topics, *unknown.topics])
        answer = await broker.answer(broker.ask(both, 8))
        codes = {t.name: t.partitions[0].error_code for t in answer.topics}
        assert codes == {"t": 0, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [7, 8])  # 8 goes the shorter way where it can
@pytest.mark.parametrize("then", [[], [("t", b"i" * 16, 9)]], ids=["deleted", "grown"])
async def test_a_commit_is_answered_by_the_topics_it_was_checked_against(
    tmp_path: Path, version: int, then: list[tuple[str, bytes, int]]
) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.appends = False
        row = Commit.OffsetCommitRequestPartition
        beyond = [row(partition_index=i, committed_offset=4) for i in (0, TOPICS[0][2])]
        topic = Commit.OffsetCommitRequestTopic(name="t", partitions=beyond)
        slot = broker.ask(Commit(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]), version)
        _, number, batch = await broker.hear(Kind.APPEND)
        broker.tell(then)
        broker.append(number, batch)
        (answered,) = (await broker.answer(slot)).topics
        assert [p.error_code for p in answered.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.conformance("D-08")
async def test_requests_that_reach_a_loading_shard_are_answered_by_the_table(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        broker.become()
        heartbeat = messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        sync = messages.SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
        leave = messages.LeaveGroupRequest(group_id="g", member_id="m")
        slots = [
            broker.ask(join(), 5),
            broker.ask(sync, 3),
            broker.ask(heartbeat, 3),
            broker.ask(leave, 1),
            broker.ask(Fetch(group_id="g", topics=None), 7),
        ]
        codes = [(await broker.answer(slot)).error_code for slot in slots]
        assert codes == [14, 27, 0, 14, 14]
        answer = await broker.commit(1)
        assert answer.topics[0].partitions[0].error_code == 14
        assert broker.of(Kind.ACTIVE) == []
        broker.loaded()
        assert (await broker.hear(Kind.ACTIVE))[0] == 3


async def test_a_group_of_one_joins_and_syncs_through_the_relay(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.link.send(Kind.OPEN, 9, 0, b"10.1.2.3")
        first = await broker.answer(broker.ask(join(), 5, 9))
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("a-client-")
        joined = await broker.answer(broker.ask(join(first.member_id), 5, 9))
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, first.member_id)
        assignment = messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"mine")
        sync = messages.SyncGroupRequest(
            group_id="g", generation_id=1, member_id=first.member_id, assignments=[assignment]
        )
        assert (await broker.answer(broker.ask(sync, 3, 9))).assignment == b"mine"
        described = await broker.answer(broker.ask(messages.DescribeGroupsRequest(groups=["g"]), 5, 9))
        (member,) = described.groups[0].members
        assert member.client_host == "/10.1.2.3"
        assert described.groups[0].group_state == "Stable"


async def test_a_parked_request_is_answered_by_a_timer_without_further_input(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving(group_initial_rebalance_delay_ms=300)
        first = await broker.answer(broker.ask(join(), 5))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        joined = await broker.answer(broker.ask(join(first.member_id), 5))
        assert joined.generation_id == 1
        assert 0.28 <= loop.time() - begun < 10, "long before its rebalance timeout"


async def test_a_client_that_hung_up_is_not_answered(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving(group_initial_rebalance_delay_ms=200)
        first = await broker.answer(broker.ask(join(), 5, 4))
        parked = broker.ask(join(first.member_id), 5, 4)
        broker.link.send(Kind.CLOSE, 4)
        other = broker.ask(join(), 5, 5)
        await broker.answer(other)
        described = None
        while described is None or described.groups[0].group_state == "PreparingRebalance":
            described = await broker.answer(broker.ask(messages.DescribeGroupsRequest(groups=["g"]), 5, 5))
            await asyncio.sleep(0.02)
        assert described.groups[0].group_state == "CompletingRebalance", "what it asked for still happened"
        assert not broker.answered(parked)


@pytest.mark.parametrize(
    "frame", [b"", b"\x00\x0c", b"\x00\x0c\x00\x04" + b"\xff" * 30, b"\x00\x0c\x00\x63" + bytes(8)]
)
async def test_a_malformed_request_gets_an_empty_answer_and_harms_nobody(tmp_path: Path, frame: bytes) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.link.send(Kind.REQUEST, 1, 999, frame)
        await until(lambda: broker.answered(999))
        assert [p for _, b, p in broker.of(Kind.RESPONSE) if b == 999] == [b""]
        assert (await broker.commit(4)).topics[0].partitions[0].error_code == 0


@pytest.mark.conformance("XE-42")
async def test_of_a_request_that_trips_the_shard_up_its_kind_alone_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each repetition makes the partition load again: the log has to help to find the cause."""

    def trip(*_: Any) -> None:
        raise KeyError("a bug")

    async with process(tmp_path) as broker:
        await broker.serving()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with monkeypatch.context() as patch:
            patch.setattr("actors.coordinator.shard.Shard.handle", trip)
            broker.ask(Fetch(group_id="the culprit", topics=None), 7)
            await until(lambda: "failed" in caplog.text)
        assert re.search(r"a request of \S+ failed: API key 9, version 7, \d+ bytes\n", caplog.text)
        assert "the culprit" not in caplog.text
        assert b"the culprit".hex() not in caplog.text
        await until(lambda: broker.hellos == 2, what="it offers itself again")


async def test_a_resigned_process_says_hello_after_all_it_had_said_and_serves_the_next_partition(
    tmp_path: Path,
) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.ask(commit(5), 8)
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        said = len(broker.heard)
        broker.link.send(Kind.PING)
        await broker.hear(Kind.PONG, 2)  # the first one had its last figures, and came before the HELLO
        assert [kind for kind, *_ in broker.heard[said:]] == [Kind.PONG], "nothing of its former life"
        broker.log.clear()
        broker.end = 0
        await broker.serving()
        assert await broker.committed() == {}


async def test_an_orphan_is_adopted_by_the_next_broker_at_the_same_socket(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        await broker.commit(5)
        broker.server.close()
        broker.link.close()
        await until(lambda: not broker.links)
        (tmp_path / "s").unlink(missing_ok=True)
        successor = await FakeBroker(broker.path).listen()
        await successor.hear(Kind.HELLO)
        successor.log, successor.end = broker.log, broker.end
        await successor.serving()
        assert await successor.committed() == {0: 5}
        successor.server.close()
        successor.link.close()


async def test_a_process_no_broker_wants_ends_by_itself(tmp_path: Path) -> None:
    await asyncio.wait_for(ShardProcess(str(tmp_path / "nobody"), "", "tests").run(orphan_seconds=0.2), 10)


async def test_a_process_says_whether_it_may_sleep(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        broker.ask(join(), 3)
        broker.link.send(Kind.MAY_SLEEP, 3, 41)
        partition, number, payload = await broker.hear(Kind.RESTS)
        assert (partition, number) == (3, 41)
        assert PAYLOADS.read(MaySleepResponse, payload).busy


async def test_an_idle_process_says_what_it_holds_and_forgets_it_when_it_resigns(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving(offsets_retention_minutes=1)
        before_ms = time.time_ns() // 10**6
        await broker.commit(7)
        broker.link.send(Kind.MAY_SLEEP, 3, 41)
        rest = PAYLOADS.read(MaySleepResponse, (await broker.hear(Kind.RESTS))[2])
        assert (rest.busy, rest.topics, rest.groups) == ("", ("t",), (ListedGroup("g", "", "Empty"),))
        assert rest.due_ms is not None
        assert before_ms + 60_000 <= rest.due_ms <= time.time_ns() // 10**6 + 60_000
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        broker.link.send(Kind.MAY_SLEEP, 3, 42)
        broker.link.send(Kind.PING)
        last = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2])
        assert last.counters["offset_commits"] == 1, "it says what it has counted before it forgets it"
        figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG, 2))[2])
        assert figures.state is None
        assert len(broker.of(Kind.RESTS)) == 1


async def test_offsets_of_topics_that_were_deleted_while_nobody_served_go_though_there_are_new_ones(
    tmp_path: Path,
) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        await broker.commit(7)
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        broker.become()
        broker.link.send(Kind.TOPICS_DELETED, 3, 0, PAYLOADS.encode(DeletedTopics(("t",))))
        broker.loaded()
        await broker.hear(Kind.ACTIVE, 2)
        assert await broker.committed() == {}
        await broker.commit(8)
        assert await broker.committed() == {0: 8}


async def test_offsets_of_a_deleted_topic_go_though_the_process_had_loaded_when_it_heard(tmp_path: Path) -> None:
    """The broker may not have read yet that it serves."""
    async with process(tmp_path) as broker:
        await broker.serving()
        await broker.commit(7)
        broker.link.send(Kind.TOPICS_DELETED, 3, 0, PAYLOADS.encode(DeletedTopics(("t",))))
        await broker.hear(Kind.APPEND, 2)
        assert await broker.committed() == {}
