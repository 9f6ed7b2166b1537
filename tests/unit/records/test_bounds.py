"""The bounds of one batch: at produce by the topic's settings, in the log by the ceiling alone."""

from __future__ import annotations

import pytest

from actors.records.batch import read_header
from actors.records.bounds import EXPANSION, PLAIN_BYTES_MAX, RECORDS_MAX, STORED, Bounds, at_produce
from actors.records.errors import CORRUPT_MESSAGE, OverBoundsError
from actors.records.reading import batch_records, iter_key_values, payload_of
from tests.support.raw_batches import CODECS, batch, bomb, pack, record, records, snappy_that_states, zstd_bomb
from tests.support.read_records import read_records


@pytest.mark.parametrize(
    ("max_message_bytes", "expected"),
    [
        (0, Bounds(0, 0, 0)),
        (1000, Bounds(32_000, 1000, 1000)),
        (1_048_588, Bounds(33_554_816, 1_048_588, 1_048_588)),
        (PLAIN_BYTES_MAX // EXPANSION, STORED),
        (100 << 20, STORED),
        (2**31 - 1, STORED),
    ],
)
def test_bounds_at_produce_follow_the_topic_up_to_the_ceiling(max_message_bytes, expected):
    assert at_produce(max_message_bytes) == expected


MORE = PLAIN_BYTES_MAX + 1


def bomb_of(codec: str) -> bytes:
    return batch(b"", 1, codec, packed=bomb(codec, MORE))


def many_records_of(codec: str) -> bytes:
    return batch(b"", RECORDS_MAX + 1, codec, packed=b"unread")


BEYOND = {
    **{f"a bomb of {codec}": lambda codec=codec: bomb_of(codec) for codec in CODECS if codec != "none"},
    "a zstd frame that states its size": lambda: batch(b"", 1, "zstd", packed=zstd_bomb(MORE, states_size=True)),
    "raw snappy that states 4 GB": lambda: batch(b"", 1, "snappy", packed=snappy_that_states(2**32 - 1)),
    **{f"many records in {codec}": lambda codec=codec: many_records_of(codec) for codec in CODECS},
    "a negative count": lambda: batch(records(3), -1, "none", last_offset_delta=2),
}


@pytest.mark.parametrize("kind", BEYOND)
def test_a_stored_batch_beyond_the_ceiling_is_over_bounds(kind):
    data = BEYOND[kind]()
    header = read_header(data)
    with pytest.raises(OverBoundsError) as caught:
        payload_of(data, header)
    assert caught.value.error_code == CORRUPT_MESSAGE
    for reader in (lambda: batch_records(data, header), lambda: read_records(data)):
        with pytest.raises(OverBoundsError):
            list(reader())


@pytest.mark.parametrize("kind", [kind for kind in BEYOND if "negative" not in kind and "none" not in kind])
def test_loading_a_shard_stops_at_a_batch_beyond_the_ceiling(kind):
    with pytest.raises(OverBoundsError):
        list(iter_key_values(batch(records(2), 2) + BEYOND[kind]()))


@pytest.mark.parametrize("codec", CODECS)
def test_a_stored_batch_is_read_up_to_the_bounds_that_are_given(codec):
    payload = records(5)
    data = batch(payload, 5, codec, packed=pack(codec, payload))
    header = read_header(data)
    assert payload_of(data, header) == payload
    if codec != "none":
        assert payload_of(data, header, Bounds(len(payload), 5)) == payload
        with pytest.raises(OverBoundsError):
            payload_of(data, header, Bounds(len(payload) - 1, 5))
    with pytest.raises(OverBoundsError):
        payload_of(data, header, Bounds(len(payload), 4))


def test_headers_beyond_the_ceiling_stop_the_reader_that_counts_them():
    data = batch(record(0, headers=[(b"\xff", None)], header_count=RECORDS_MAX + 1), 1)
    with pytest.raises(OverBoundsError):
        list(batch_records(data, read_header(data)))
