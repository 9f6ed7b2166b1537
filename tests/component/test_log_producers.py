"""A log's knowledge of idempotent producers: repeats, gaps, and its part that outlives a restart."""

import pytest

from tests.support.log_helpers import (
    NOW_MS,
    append,
    open_log,
    refused,
    sent,
)

# -- idempotent producers


def test_the_last_five_batches_are_recognised(tmp_path):
    log = open_log(tmp_path)
    for number in range(6):
        append(log, sent(number * 2, 2))
    for number in range(1, 6):
        result = log.append_as_leader(sent(number * 2, 2), 0, NOW_MS)
        assert (result.base_offset, result.last_offset) == (number * 2, number * 2 + 1)
        assert result.duplicate
    refused(log, sent(0, 2), 45)
    assert log.log_end_offset == 12
    log.abandon()


def test_gaps_and_old_epochs_are_refused(tmp_path):
    log = open_log(tmp_path)
    append(log, sent(0, epoch=1))
    refused(log, sent(2, epoch=1), 45)
    refused(log, sent(0, 2, epoch=1), 45)
    refused(log, sent(1, epoch=0), 47)
    refused(log, sent(1, epoch=2), 45)
    append(log, sent(0, epoch=2))
    append(log, sent(1, epoch=2))
    refused(log, sent(2, epoch=1), 47)
    log.abandon()


def test_an_unknown_producer_may_begin_anywhere(tmp_path):
    log = open_log(tmp_path)
    append(log, sent(17))
    append(log, sent(18))
    refused(log, sent(20), 45)
    log.abandon()


def test_sequences_wrap(tmp_path):
    log = open_log(tmp_path)
    append(log, sent(2**31 - 2, 2))
    append(log, sent(0))
    assert log.append_as_leader(sent(2**31 - 2, 2), 0, NOW_MS).duplicate
    append(log, sent(1))
    append(log, sent(2**31 - 3, producer_id=8))
    append(log, sent(2**31 - 2, 4, producer_id=8))
    append(log, sent(2, producer_id=8))
    log.abandon()


def test_several_batches_of_one_request_follow_one_another(tmp_path):
    log = open_log(tmp_path)
    append(log, sent(0) + sent(1) + sent(2, producer_id=9), internal=True)
    refused(log, sent(2) + sent(4), 45, internal=True)
    append(log, sent(2) + sent(3), internal=True)
    log.abandon()


@pytest.mark.parametrize("ending", ["clean", "crash", "crash without snapshots"])
def test_producers_are_known_after_reopening(tmp_path, ending):
    log = open_log(tmp_path, segment_bytes="300")
    for number in range(8):
        append(log, sent(number))
    log.flush()
    append(log, sent(8))
    log.close() if ending == "clean" else log.abandon()
    if ending == "crash without snapshots":
        for snapshot in tmp_path.glob("*.snapshot"):
            snapshot.write_bytes(b"damaged")
    log = open_log(tmp_path, clean=ending == "clean", segment_bytes="300")
    for number in range(4, 9):
        result = log.append_as_leader(sent(number), 0, NOW_MS)
        assert (result.base_offset, result.duplicate) == (number, True)
    refused(log, sent(10), 45)
    append(log, sent(9))
    log.abandon()


def test_producers_forget_what_is_truncated(tmp_path):
    log = open_log(tmp_path, segment_bytes="300")
    for number in range(8):
        append(log, sent(number), commit=False)
    log.truncate_to(5)
    refused(log, sent(7), 45)
    result = log.append_as_leader(sent(5), 0, NOW_MS)
    assert (result.base_offset, result.duplicate) == (5, False)
    log.abandon()


def test_silent_producers_expire(tmp_path):
    log = open_log(tmp_path, producer_id_expiration_ms="1000")
    append(log, sent(0))
    log.retention.apply(NOW_MS + 999)
    refused(log, sent(5), 45)
    log.retention.apply(NOW_MS + 1000)
    append(log, sent(5))
    log.abandon()
