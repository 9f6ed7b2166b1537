"""Small things that mutation testing found nobody looking at: what is answered, and what stands in the log."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from actors.coordinator.classic.records import GroupPut, decode_group_value
from actors.coordinator.errors import Error
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest, OffsetDeleteRequest
from actors.coordinator.groups.offset_records import OffsetAndMetadata, decode_offset_value
from actors.coordinator.records import CorruptRecordError, encode
from tests.support.coordination import (
    NO_DELAY,
    START_WALL_MS,
    Client,
    Driver,
    form,
    stable_group,
)
from tests.support.offset_rows import offsets_put

HOUR = 3_600_000
RETENTION_MS = CoordinatorConfig().offsets_retention_ms
# A group's record, version 3, with one member, as Kafka writes it; its last field is the member's assignment.
GROUP_V3 = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e67650003632d310000018bcfe56800000000010003632d31ffff000163000a2f3132"
    "372e302e302e31000493e00000afc80000001200000000000100066f7264657273ffffffff"
)
ASSIGNMENT = bytes.fromhex("00000000000100066f7264657273000000020000000000000001ffffffff")


def last_group_record(driver: Driver) -> GroupPut:
    changes = [GROUP_RECORDS.decode(*record) for record in driver.log]
    return next(change for change in reversed(changes) if isinstance(change, GroupPut))


# -- joining


@pytest.mark.conformance("B-20")
@pytest.mark.parametrize("lists", [["ab", "ba", "ba"], ["ba", "ab", "ba", "ab", "ab"], ["ab", "ba", "ba", "cba"]])
def test_the_majority_outvotes_whoever_came_first(lists: list[str]) -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=3_000))
    clients = [
        Client(driver, f"c{n}", protocols=tuple((name, b"") for name in names)).join() for n, names in enumerate(lists)
    ]
    driver.advance(60_000)
    chosen = max("ab", key=lambda name: sum(names.strip("c").startswith(name) for names in lists))
    assert {client.joined().protocol_name for client in clients} == {chosen}


@pytest.mark.conformance("B-40")
@pytest.mark.parametrize("version", [0, 6, 7, 9])
def test_a_protocol_that_was_chosen_is_named_in_every_version(version: int) -> None:
    driver = Driver()
    (member,) = stable_group(driver, Client(driver, version=version))
    assert member.joined().protocol_name == "range"


@pytest.mark.conformance("B-01", "B-02")
@pytest.mark.parametrize(("version", "code"), [(3, None), (4, 79), (9, 79)])
def test_version_4_is_the_first_that_joins_in_two_steps(version: int, code: int | None) -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=3_000))
    answer = driver.answer(Client(driver, version=version).ask_join())
    assert (answer and answer.error_code) == code


@pytest.mark.conformance("B-15")
def test_the_leader_is_told_the_instance_ids() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b", instance="i"))
    (told,) = [client.joined().members for client in (a, b) if client.joined().members]
    assert {(member.member_id, member.group_instance_id) for member in told} == {
        (a.member_id, None),
        (b.member_id, "i"),
    }


@pytest.mark.conformance("B-44")
def test_a_member_of_a_full_first_rebalance_may_ask_again() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=3_000, group_max_size=2))
    a, b = (Client(driver, name).join() for name in "ab")
    a.ask_join()
    assert a.join_answer is None
    assert driver.answer(Client(driver, "c").ask_join()).error_code == 81
    driver.advance(6_000)
    assert {a.joined().generation_id, b.joined().generation_id} == {1}


# -- static members


@pytest.mark.conformance("B-80", "B-85")
@pytest.mark.parametrize("rebalancing", [False, True])
def test_a_restarted_static_members_id_begins_with_its_instance_id(rebalancing: bool) -> None:
    driver = Driver()
    stable_group(driver, Client(driver, "a"), Client(driver, "b", instance="inst"))
    if rebalancing:
        Client(driver, "c").join()
    Client(driver, "b", instance="inst").ask_join()
    assert driver.group().roster.by_instance["inst"].startswith("inst-")


@pytest.mark.conformance("B-80", "D-04")
@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_was_replaced_leads_after_a_failover_too(version: int) -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a", instance="ia"), Client(driver, "b"))
    again = Client(driver, "a", instance="ia", version=version)
    again.ask_join()
    answer = again.joined()
    assert (answer.protocol_name, answer.generation_id) == ("range", a.generation)
    assert last_group_record(driver).metadata.leader_id == again.member_id
    driver.fail_over()
    assert driver.group().leader_id == again.member_id
    assert {again.heartbeat(), b.heartbeat()} == {0}


@pytest.mark.conformance("B-84")
def test_a_fenced_first_join_is_told_the_id_it_had_been_given() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=3_000))
    old = Client(driver, "b", instance="i")
    old.ask_join()
    (given,) = driver.group().members
    Client(driver, "b", instance="i").ask_join()
    fenced = old.join_answer
    assert fenced is not None
    assert (fenced.error_code, fenced.member_id) == (82, given)


# -- after a load


@pytest.mark.conformance("D-04", "D-07")
def test_a_loaded_group_goes_on_writing_under_its_own_name() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    driver.fail_over()
    a.join(), b.join()
    form(driver, [a, b])
    record = last_group_record(driver)
    assert (record.group_id, record.metadata.generation_id) == ("g", a.generation)
    assert {member.member_id for member in record.metadata.members} == {a.member_id, b.member_id}
    assert driver.shard.coordinator.group_status("g", driver.now) is not None


# -- leaving


@pytest.mark.conformance("B-72", "B-76")
@pytest.mark.parametrize(("version", "top", "each"), [(2, 25, []), (3, 0, [25, 0]), (5, 0, [25, 0])])
def test_version_3_is_the_first_that_answers_leavers_one_by_one(version: int, top: int, each: list[int]) -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    entries = (LeavingMember("stranger"), LeavingMember(a.member_id))
    answer = driver.call(LeaveGroupRequest("g", entries, version))
    assert (answer.error_code, [member.error_code for member in answer.members]) == (top, each)


def test_members_that_expire_are_counted() -> None:
    driver = Driver()
    stable_group(driver, *(Client(driver, name) for name in "abc"))
    driver.advance(10_000)
    assert driver.shard.coordinator.metrics.members_expired == 3
    late = Client(driver, "d").join()
    late.joined()
    for _ in range(7):
        driver.advance(9_000)
        late.heartbeat()
    assert driver.shard.coordinator.metrics.members_expired == 4, "as those that never sync are"


# -- offsets


@pytest.mark.conformance("C-02", "C-03")
@pytest.mark.parametrize(("version", "missing"), [(8, 22), (9, 69)])
def test_generation_0_is_a_generation(version: int, missing: int) -> None:
    driver = Driver()
    token = driver.commit_offset("nobody", 1, generation=0, member_id="m", version=version)
    assert driver.answer(token).error_codes == [missing]
    driver.commit_offset("simple", 1)
    token = driver.commit_offset("simple", 2, generation=0, member_id="m", version=version)
    assert driver.answer(token).error_codes == [25]
    assert driver.offset("simple") == 1


@pytest.mark.conformance("D-15")
def test_an_offset_deletion_that_the_log_refuses_says_so() -> None:
    driver = Driver()
    driver.commit_offset("g", 5)
    driver.holds = True
    token = driver.ask(OffsetDeleteRequest("g", (("orders", 0),)))
    assert driver.answer(token) is None
    driver.refuse(Error.NOT_ENOUGH_REPLICAS)
    assert driver.answer(token).error_code != 0
    assert driver.offset("g") == 5


def with_pending_offset(topic: str, before: int | None = None) -> Driver:
    """A simple group with an offset that an open transaction has written, and one from before."""
    driver = Driver(loaded=False)
    driver.shard.start_loading(0, driver.now)
    for offset, take in ((before, driver.shard.load), (2, partial(driver.shard.load_transactional, 7))):
        if offset is not None:
            value = OffsetAndMetadata(offset, -1, "", START_WALL_MS)
            take(encode([offsets_put("g", ((topic, 0), value))]))
    driver.shard.finish_loading(driver.now, 0)
    return driver


@pytest.mark.conformance("C-14", "C-20")
def test_what_a_transaction_may_still_decide_does_not_expire() -> None:
    driver = with_pending_offset("orders", before=1)
    driver.advance(RETENTION_MS + HOUR)
    assert driver.offset("g") == 1
    assert driver.shard.coordinator.metrics.offset_expirations == 0


@pytest.mark.conformance("C-14", "C-23")
def test_a_deleted_topics_pending_offsets_go_too() -> None:
    driver = with_pending_offset("gone")
    assert driver.call(DeleteTopicOffsetsRequest(frozenset({"gone"}))).error_code == 0
    durable = driver.durable.get("g")
    assert durable is None or not durable.pending
    assert driver.fetch("g", ("gone", 0), stable=True)[0].error_code == 0, "nobody waits for that transaction"


@pytest.mark.conformance("C-16", "C-20")
def test_retention_is_over_at_its_last_millisecond_and_not_before() -> None:
    # Looked at every minute, and for the tenth time in the millisecond in which it is over.
    driver = Driver(CoordinatorConfig(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000))
    driver.commit_offset("g", 1)
    driver.advance(599_999)
    assert driver.offset("g") == 1
    driver.advance(1)
    assert driver.offset("g") == -1
    assert driver.shard.coordinator.metrics.offset_expirations == 1


@pytest.mark.conformance("C-23")
def test_an_offset_of_a_new_topic_survives_the_sweep_after_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 1)
    driver = Driver(NO_DELAY)
    for n in range(4):
        driver.commit_offset(f"g{n}", 7, topic="gone")
        driver.commit_offset(f"g{n}", 8, topic="gone", partition=1)
    token = driver.ask(DeleteTopicOffsetsRequest(frozenset({"gone"})))
    assert driver.answer(token) is None
    driver.commit_offset("g3", 1, topic="gone")
    assert driver.offset("g3", "gone", 1) == -1, "looked at before its turn"
    driver.advance(1_000)
    assert driver.answer(token).error_code == 0
    assert [driver.offset(f"g{n}", "gone") for n in range(4)] == [-1, -1, -1, 1]
    assert driver.shard.coordinator.metrics.offset_deletions == 8


# -- records


@pytest.mark.conformance("D-02")
def test_lengths_of_flexible_records_may_take_several_bytes() -> None:
    text = b"m" * 300
    value = b"\0\x04" + (42).to_bytes(8, "big") + (5).to_bytes(4, "big") + b"\xad\x02" + text + (9).to_bytes(8, "big")
    tags = b"\x01" + b"\x85\x01" + b"\xc8\x01" + b"t" * 200
    assert decode_offset_value(value + tags) == OffsetAndMetadata(42, 5, text.decode(), 9, -1)
    with pytest.raises(CorruptRecordError):
        decode_offset_value(value + tags[:-1])


@pytest.mark.conformance("D-12")
@pytest.mark.parametrize("varint", [b"\xff", b"\xff\xff\xff\xff\xff\x01"], ids=["cut off", "too long"])
def test_a_length_without_end_is_corrupt(varint: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_offset_value(b"\0\x04" + bytes(12) + varint)


@pytest.mark.conformance("D-12")
def test_metadata_that_is_null_is_corrupt() -> None:
    value = b"\0\x03" + bytes(12) + b"\xff\xff" + bytes(8)
    with pytest.raises(CorruptRecordError):
        decode_offset_value(value)


@pytest.mark.conformance("D-02")
@pytest.mark.parametrize("assignment", [ASSIGNMENT, b"", None])
def test_an_assignment_may_be_missing_from_a_groups_record(assignment: bytes | None) -> None:
    length = -1 if assignment is None else len(assignment)
    value = GROUP_V3 + length.to_bytes(4, "big", signed=True) + (assignment or b"")
    (member,) = decode_group_value(value).members
    found: Any = member.assignment
    assert found == (assignment or b"")
