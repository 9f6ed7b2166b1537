"""max.decompressed.message.bytes bounds each record of a compressed batch, as in Kafka 4.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.records.building import build_batch
from actors.records.errors import INVALID_RECORD, LogError
from tests.support.log_helpers import NOW_MS, open_log

CODECS = ("gzip", "snappy", "lz4", "zstd")


def batch(codec: str, *sizes: int) -> bytes:
    return build_batch([(b"k", bytes(size), None, NOW_MS) for size in sizes], compression=codec)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("others", [0, 50])
def test_a_record_that_is_longer_when_decompressed_is_refused(tmp_path: Path, codec: str, others: int) -> None:
    log = open_log(tmp_path, max_decompressed_message_bytes="1000")
    with pytest.raises(LogError, match=r"max\.decompressed\.message\.bytes is 1000") as caught:
        log.append_as_leader(batch(codec, *[10] * others, 1000), 0, NOW_MS)
    assert caught.value.error_code == INVALID_RECORD
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", CODECS)
def test_it_is_a_bound_of_records_and_not_of_batches(tmp_path: Path, codec: str) -> None:
    log = open_log(tmp_path, max_decompressed_message_bytes="1000")
    log.append_as_leader(batch(codec, *[900] * 50), 0, NOW_MS)
    log.append_as_leader(batch("none", 10_000), 0, NOW_MS)
    assert log.log_end_offset == 51


@pytest.mark.parametrize(("size", "fits"), [(992, True), (993, False)])
def test_the_length_in_front_of_a_record_does_not_count(tmp_path: Path, size: int, fits: bool) -> None:
    # Attributes, two deltas, the key and its length, two bytes of the value's length, no headers: eight bytes.
    log = open_log(tmp_path, max_decompressed_message_bytes="1000")
    try:
        log.append_as_leader(batch("zstd", size), 0, NOW_MS)
    except LogError:
        assert not fits
    else:
        assert fits
