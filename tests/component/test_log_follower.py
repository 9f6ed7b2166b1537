"""A follower's log: the batches that it takes from its leader, and those that it refuses."""

import pytest

from actors.records.building import build_sparse_batch
from actors.records.errors import LogError
from tests.support.log_helpers import NOW_MS, all_bytes, append, batch_bounds, content, open_log, sent, values


def test_a_follower_becomes_a_copy(tmp_path):
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b", segment_bytes="400")
    for number in range(10):
        append(leader, sent(number) + values(b"x", b"y"), epoch=number // 4, internal=True)
    while follower.log_end_offset < leader.log_end_offset:
        result = follower.append_as_follower(leader.read(follower.log_end_offset, 300), NOW_MS)
        assert result.last_offset == follower.log_end_offset - 1
    assert all_bytes(follower) == all_bytes(leader)
    assert follower.epoch_entries() == leader.epoch_entries() == [(0, 0), (1, 12), (2, 24)]
    assert follower.append_as_leader(sent(9), 3, NOW_MS).duplicate
    leader.abandon()
    follower.abandon()


def test_a_follower_refuses_what_does_not_fit(tmp_path):
    log = open_log(tmp_path)
    stamped = [values(b"v", base_offset=offset, leader_epoch=0) for offset in range(4)]
    log.append_as_follower(stamped[0] + stamped[1], NOW_MS)
    bad = stamped[2][:-1] + bytes([stamped[2][-1] ^ 1])
    for data, code in ((stamped[1], 1), (stamped[3] + stamped[2], 1), (stamped[2][:-1], 2), (b"", 2), (bad, 2)):
        with pytest.raises(LogError) as caught:
            log.append_as_follower(data, NOW_MS)
        assert caught.value.error_code == code
    log.append_as_follower(stamped[3], NOW_MS)
    assert [offset for offset, _, _ in content(log)] == [0, 1, 3], "compaction leaves gaps"
    log.abandon()


def test_a_follower_takes_the_rest_of_a_merged_batch(tmp_path):
    log = open_log(tmp_path)
    log.append_as_follower(values(b"0", b"1", base_offset=0, leader_epoch=0), NOW_MS)
    merged = values(b"0", b"1", b"2", b"3", base_offset=0, leader_epoch=0)
    log.append_as_follower(merged + values(b"4", base_offset=4, leader_epoch=0), NOW_MS)
    assert content(log) == [(number, b"k", b"%d" % number) for number in range(5)]
    assert batch_bounds(log) == [(0, 1), (2, 3), (4, 4)]
    log.abandon()


def test_a_follower_goes_on_behind_a_merged_batch_that_has_nothing_left_for_it(tmp_path):
    log = open_log(tmp_path)
    log.append_as_follower(values(b"0", b"1", base_offset=0, leader_epoch=0), NOW_MS)
    merged = build_sparse_batch([(0, b"k", b"0", (), 0)], base_offset=0, leader_epoch=0, last_offset_delta=3)
    log.append_as_follower(merged, NOW_MS)
    assert log.log_end_offset == 2
    log.append_as_follower(merged + values(b"4", base_offset=4, leader_epoch=0), NOW_MS)
    assert content(log) == [(number, b"k", b"%d" % number) for number in (0, 1, 4)]
    log.abandon()
