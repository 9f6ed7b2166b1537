"""Offsets: statements C-01 to C-13. (The handlers' tests have the API layer's answers about unknown topics.)"""

from __future__ import annotations

import pytest

from actors.coordinator.groups.messages import FetchedOffset, OffsetFetchRequest
from actors.coordinator.groups.offset_records import decode_offset_value
from tests.support.coordination import Client, Driver, stable_group
from tests.support.coordination_groups import error_of
from tests.support.offset_rows import commit_request

# -- rights to commit


@pytest.mark.conformance("C-01")
def test_a_commit_without_generation_makes_a_simple_group() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 7)) == 0
    (listed,) = driver.list_groups()
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")
    assert driver.offset("g") == 7


def test_the_empty_group_id_is_legal_for_offsets() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("", 7)) == 0
    assert driver.offset("") == 7
    assert error_of(driver, driver.commit_offset(None, 7)) == 24
    assert driver.call(OffsetFetchRequest(None, None)).error_code == 24


@pytest.mark.conformance("C-02")
@pytest.mark.parametrize(("version", "error"), [(9, 69), (8, 22), (1, 22)])
def test_a_generation_for_a_missing_group(version: int, error: int) -> None:
    driver = Driver()
    token = driver.commit_offset("g", 1, generation=3, member_id="m", version=version)
    assert error_of(driver, token) == error
    assert driver.group_or_none() is None


@pytest.mark.conformance("C-03")
@pytest.mark.parametrize("member_id", ["", "anybody"])
def test_a_commit_without_generation_into_an_empty_group(member_id: str) -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    assert error_of(driver, driver.commit_offset("g", 5, member_id=member_id)) == 0
    assert driver.offset("g") == 5


@pytest.mark.conformance("C-04")
def test_a_commit_without_generation_into_a_stable_group() -> None:
    driver = Driver()
    stable_group(driver, Client(driver, "a"))
    assert error_of(driver, driver.commit_offset("g", 5)) == 25


@pytest.mark.conformance("C-05")
def test_a_commit_while_preparing_extends_the_session() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    b.ask_join(protocols=(("range", b"changed"),))
    assert driver.state() == "PreparingRebalance"
    driver.advance(9_999)
    assert a.commit(3) == 0
    assert driver.offset("g") == 3
    driver.advance(9_999)
    assert a.member_id in driver.group().members
    driver.advance(1)
    assert a.member_id not in driver.group().members


def test_a_commit_in_stable_extends_the_session() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.advance(9_999)
    assert a.commit() == 0
    driver.advance(9_999)
    assert driver.state() == "Stable"


@pytest.mark.conformance("C-06")
def test_commits_while_completing() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    old = a.generation
    a.ask_join(), a.joined()
    assert driver.state() == "CompletingRebalance"
    assert a.commit() == 27
    assert a.commit(generation=old) == 22


@pytest.mark.conformance("C-07")
def test_commits_refused_in_stable() -> None:
    driver = Driver()
    a, _ = stable_group(driver, Client(driver, "a"), Client(driver, "s", instance="i"))
    assert a.commit(generation=1) == 22
    assert a.commit(member_id="ghost") == 25
    assert a.commit(member_id="other", instance="i") == 82
    assert a.commit(instance="unknown") == 25
    assert a.commit(generation=-1) == 22


# -- stored fields


@pytest.mark.conformance("C-08")
def test_metadata_too_large_is_refused_for_its_partition_only() -> None:
    driver = Driver()
    offsets = [("t", 0, 1, -1, "m" * 4_097), ("t", 1, 2, -1, "m" * 4_096)]
    response = driver.call(commit_request("g", -1, "", None, offsets))
    assert response.error_codes == [12, 0]
    assert driver.shard.coordinator.metrics.offset_commits == 1
    assert driver.fetch("g") == (FetchedOffset("t", 1, 2, -1, "m" * 4_096),)


@pytest.mark.parametrize(("metadata", "error"), [("😀" * 2_048, 0), ("😀" * 2_049, 12), ("é" * 4_096, 0)])
def test_metadata_is_measured_in_utf16_units(metadata: str, error: int) -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 1, metadata=metadata)) == error


def test_a_commit_of_which_nothing_remains_writes_nothing() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 1, metadata="m" * 4_097)) == 12
    assert driver.call(commit_request("g", -1, "", None, [])).error_codes == []
    assert driver.log == []
    assert driver.group_or_none() is None


def test_commit_timestamp() -> None:
    driver = Driver()
    driver.commit_offset("g", 1, timestamp=77)
    driver.commit_offset("g", 2)
    stamps = [decode_offset_value(value or b"").commit_timestamp_ms for _, value in driver.log]
    assert stamps == [77, driver.now.wall_ms]


def test_null_metadata_is_empty() -> None:
    driver = Driver()
    driver.commit_offset("g", 1, metadata=None)
    assert driver.fetch("g")[0].metadata == ""


# -- commits that count


@pytest.mark.conformance("C-10")
def test_an_offset_not_yet_replicated_is_not_seen() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    token = driver.commit_offset("g", 2)
    driver.append()
    assert driver.answer(token) is None
    assert driver.offset("g") == 1
    driver.commit()
    assert error_of(driver, token) == 0
    assert driver.offset("g") == 2


@pytest.mark.conformance("C-11")
@pytest.mark.parametrize(("refusal", "error"), [(19, 15), (6, 16), (10, -1), (13, 14), (7, 15), (18, -1), (4, -1)])
def test_a_commit_the_log_refuses(refusal: int, error: int) -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    token = driver.commit_offset("g", 2)
    driver.refuse(refusal)
    assert error_of(driver, token) == error
    assert driver.offset("g") == 1


def test_a_refused_first_commit_leaves_no_group() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 1)
    assert driver.state() == "Empty"
    driver.refuse(19)
    assert driver.group_or_none() is None


@pytest.mark.conformance("C-12")
def test_a_commit_not_replicated_in_time() -> None:
    driver = Driver()
    driver.holds = True
    token = driver.commit_offset("g", 1)
    driver.append()
    driver.advance(4_999)
    assert driver.answer(token) is None
    driver.advance(1)
    assert error_of(driver, token) == 15
    assert driver.offset("g") == -1
    driver.commit()  # the record stood all the time
    assert driver.offset("g") == 1


@pytest.mark.conformance("C-13")
def test_fetching_what_is_not_there() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    assert driver.fetch("g", ("orders", 1)) == (FetchedOffset("orders", 1, -1, -1, "", 0),)
    assert driver.fetch("missing", ("orders", 0)) == (FetchedOffset("orders", 0, -1, -1, "", 0),)
    assert driver.fetch("missing") == ()


def test_fetch_tells_epoch_and_metadata() -> None:
    driver = Driver()
    offsets = [("t", 0, 42, 5, "here")]
    driver.call(commit_request("g", -1, "", None, offsets))
    assert driver.fetch("g") == (FetchedOffset("t", 0, 42, 5, "here", 0),)


# -- require-stable


def test_a_stable_fetch_waits_for_earlier_writes_of_its_group() -> None:
    driver = Driver()
    driver.commit_offset("g", 1), driver.commit_offset("h", 1)
    driver.holds = True
    driver.commit_offset("g", 2)
    fetch = OffsetFetchRequest("g", (("orders", 0),), require_stable=True)
    token = driver.ask(fetch)
    later = driver.commit_offset("g", 3)
    assert driver.answer(token) is None
    assert driver.fetch("h", ("orders", 0), stable=True)[0].offset == 1
    driver.append()
    driver.commit()
    assert driver.answer(token).offsets[0].offset == 2
    assert driver.answer(later) is None


def test_a_stable_fetch_survives_the_refusal_of_an_earlier_write() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    driver.commit_offset("g", 2)
    token = driver.ask(OffsetFetchRequest("g", None, require_stable=True))
    driver.refuse(19)
    assert driver.answer(token).offsets[0].offset == 1


def test_a_stable_fetch_gives_up_with_16() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 2)
    tokens = [driver.ask(OffsetFetchRequest("g", None, require_stable=True))]
    driver.append()
    driver.advance(5_000)
    tokens.append(driver.ask(OffsetFetchRequest("g", None, require_stable=True)))
    assert [driver.answer(token).error_code for token in tokens] == [16, 16]
