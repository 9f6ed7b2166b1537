"""Bounds on the work of a produced batch: at produce, and for batches that are checked on the loop."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from actors.log.admission import Admitted, admit, admit_at_once, one_batch
from actors.records.bounds import AT_ONCE, EXPANSION, GZIP_AT_ONCE, PACKED_AT_ONCE, bounds_at_once
from actors.records.errors import LogError
from tests.support.log_helpers import (
    all_bytes,
    append,
    clean,
    config,
    offset_for_timestamp,
    open_log,
    refused,
    values,
)
from tests.support.raw_batches import (
    CODECS,
    NOW,
    batch,
    bomb,
    pack,
    record,
    records,
    records_in,
    snappy_that_states,
    zstd_bomb,
)

MESSAGE_BYTES = 10_000
PLAIN_MOST = EXPANSION * MESSAGE_BYTES
_EIGHT = struct.Struct("<Q")
COMPRESSING = [codec for codec in CODECS if codec != "none"]


def of_headers(*counts: int) -> bytes:
    """Records with so many headers each, of two bytes a header."""
    return b"".join(
        record(number, header_count=count, header_bytes=b"\0\1" * count) for number, count in enumerate(counts)
    )


def of_plain_bytes(size: int) -> bytes:
    """A record that takes so many bytes."""
    payload = record(0, None, bytes(size - 20))
    return record(0, None, bytes(size - 20 + size - len(payload)))


TOO_MUCH = {
    **{f"a bomb of {codec}": batch(b"", 1, codec, packed=bomb(codec, PLAIN_MOST + 1)) for codec in COMPRESSING},
    "a bomb of 250 MB": batch(b"", 1, "zstd", packed=zstd_bomb(250_000_000)),
    "a zstd frame that states its size": batch(b"", 1, "zstd", packed=zstd_bomb(PLAIN_MOST + 1, states_size=True)),
    "a zstd frame that states 2^63 bytes": batch(
        b"", 1, "zstd", packed=zstd_bomb(99, states_size=True).replace(_EIGHT.pack(99), _EIGHT.pack(2**63))
    ),
    "two zstd frames": batch(b"", 1, "zstd", packed=zstd_bomb(PLAIN_MOST // 2) + zstd_bomb(PLAIN_MOST // 2 + 1)),
    "two gzip members": batch(
        b"", 1, "gzip", packed=pack("gzip", bytes(PLAIN_MOST // 2)) + pack("gzip", bytes(PLAIN_MOST // 2 + 1))
    ),
    "raw snappy that states too much": batch(b"", 1, "snappy", packed=snappy_that_states(2**31 - 1)),
    "one good record that is too long": batch(of_plain_bytes(PLAIN_MOST + 1), 1, "zstd"),
    "many headers": batch(of_headers(MESSAGE_BYTES + 1), 1, "zstd"),
    "many headers of few records": batch(of_headers(*[MESSAGE_BYTES // 20 + 1] * 20), 20, "zstd"),
    "many headers of many records": batch(of_headers(*[MESSAGE_BYTES // 40 + 1] * 40), 40, "zstd"),
    **{f"many records in {codec}": batch(b"", MESSAGE_BYTES + 1, codec, packed=b"not looked at") for codec in CODECS},
    "2^31-1 records": batch(b"", 2**31 - 1, "zstd", packed=b"not looked at"),
}
"""Batches below MESSAGE_BYTES whose records are more than `max.message.bytes` allows."""

JUST_ENOUGH = {
    "as many plain bytes as may be": batch(of_plain_bytes(PLAIN_MOST), 1, "zstd"),
    "as many headers as may be": batch(of_headers(MESSAGE_BYTES), 1, "zstd"),
    "as many headers of many records": batch(of_headers(*[MESSAGE_BYTES // 40] * 40), 40, "zstd"),
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_a_batch_beyond_its_bounds_is_too_large(tmp_path, kind):
    log = open_log(tmp_path, max_message_bytes=str(MESSAGE_BYTES))
    assert len(TOO_MUCH[kind]) < MESSAGE_BYTES
    error = refused(log, TOO_MUCH[kind], 10)
    assert f"max.message.bytes is {MESSAGE_BYTES}" in str(error)
    log.abandon()


@pytest.mark.parametrize("kind", JUST_ENOUGH)
def test_a_batch_at_its_bounds_is_taken(tmp_path, kind):
    log = open_log(tmp_path, max_message_bytes=str(MESSAGE_BYTES))
    append(log, JUST_ENOUGH[kind])
    assert records_in(all_bytes(log)) == records_in(JUST_ENOUGH[kind])
    log.abandon()


# -- on the loop, or in a thread

ZSTD, LARGE = {"compression_type": "zstd"}, {"max_message_bytes": str(64 << 20)}
MANY = AT_ONCE.records + 1
PLAIN_BYTES, REWRITTEN_BYTES = bounds_at_once(CODECS["none"]).plain_bytes, AT_ONCE.rewritten_bytes
PACKED = {codec: GZIP_AT_ONCE if codec == "gzip" else PACKED_AT_ONCE for codec in COMPRESSING}


def in_two(plain: bytes) -> bytes:
    """Two gzip members."""
    return pack("gzip", plain[:1000]) + pack("gzip", plain[1000:])


def empty_blocks(count: int) -> bytes:
    """A zstd frame of a window of 1 KiB, with so many blocks of no bytes before the last one."""
    return b"\x28\xb5\x2f\xfd\0\0" + b"\0\0\0" * count + b"\1\0\0"


LONG = {
    "many records": (batch(records(MANY), MANY), {}),
    "many compressed records": (batch(records(MANY), MANY, "lz4"), LARGE),
    "many headers": (batch(of_headers(MANY), 1), {}),
    "many headers of many records": (batch(of_headers(*[MANY // 40 + 1] * 40), 40, "lz4"), {}),
    "many bytes": (batch(of_plain_bytes(PLAIN_BYTES), 1), LARGE),
    **{
        f"many compressed bytes of {codec}": (batch(b"", 1, codec, packed=bytes(PACKED[codec])), {}) for codec in PACKED
    },
    **{
        f"many parts of {codec}": (batch(b"", 1, codec, packed=pack(codec, b"") * (AT_ONCE.parts + 2)), {})
        for codec in COMPRESSING
    },
    "a zstd frame of many blocks": (batch(b"", 1, "zstd", packed=empty_blocks(AT_ONCE.parts)), {}),
    "two gzip members to compress anew": (
        batch(b"", 1, "gzip", packed=in_two(of_plain_bytes(REWRITTEN_BYTES + 1))),
        {},
    ),
    **{
        f"many bytes in {codec}": (batch(of_plain_bytes(AT_ONCE.plain_bytes + 1), 1, codec), {})
        for codec in COMPRESSING
    },
    "many bytes to compress": (batch(of_plain_bytes(REWRITTEN_BYTES + 1), 1), ZSTD),
    "many bytes to compress anew": (batch(of_plain_bytes(REWRITTEN_BYTES + 1), 1, "lz4"), ZSTD),
    "more than the topic takes": (TOO_MUCH["one good record that is too long"], {"max_message_bytes": "10000"}),
}
AT_ONCE = {
    "many records": (batch(of_headers(*[0] * AT_ONCE.records), AT_ONCE.records), {}),
    "many headers": (batch(of_headers(AT_ONCE.headers), 1, "lz4"), {}),
    "many bytes": (batch(of_plain_bytes(PLAIN_BYTES - 61), 1), LARGE),
    **{
        f"many bytes in {codec}": (batch(of_plain_bytes(AT_ONCE.plain_bytes), 1, codec), {})
        for codec in COMPRESSING
        if codec != "snappy"  # it packs nothing that small
    },
    "many bytes to compress": (batch(of_plain_bytes(REWRITTEN_BYTES), 1), ZSTD),
    **{f"a few records in {codec}": (batch(records(3), 3, codec, max_time=-1), {}) for codec in CODECS},
    **{f"a few records of {codec} in zstd": (batch(records(30), 30, codec), ZSTD) for codec in CODECS},
    "the time of the append": (batch(records(30), 30), {"message_timestamp_type": "LogAppendTime"}),
}


def same(one: Admitted, other: Admitted) -> bool:
    return one.header == other.header and bytes(one.payload) == bytes(other.payload)


@pytest.mark.parametrize("kind", LONG)
def test_a_batch_that_may_take_long_is_not_checked_on_the_loop(kind):
    data, settings = LONG[kind]
    topic = config(**settings)
    assert admit_at_once(one_batch(data, topic), topic, NOW) is None


IN_A_NEW_PROCESS = f"""
import sys
from actors.log.admission import admit_at_once, one_batch
from tests.support.log_helpers import config
from tests.support.raw_batches import batch, record
alike = batch(b"".join(record(number, None, b"same") for number in range(60)), 60)
others = batch(b"".join(record(number, None, bytes(number)) for number in range(60)), 60)
print([admit_at_once(one_batch(each, config()), config(), {NOW}) is None for each in (alike, others)])
print("numpy" in sys.modules)
"""


def test_records_that_look_alike_are_checked_on_the_loop_where_nothing_has_imported_numpy_yet():
    """And the loop imports it for no others: that takes a tenth of a second."""
    done = subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[False,", "True]", "False"]


@pytest.mark.parametrize("kind", AT_ONCE)
def test_a_batch_is_the_same_wherever_it_is_checked(kind):
    data, settings = AT_ONCE[kind]
    topic = config(**settings)
    at_once = admit_at_once(one_batch(data, topic), topic, NOW)
    assert at_once is not None
    assert same(at_once, admit(one_batch(data, topic), topic, NOW))


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_the_loop_takes_no_batch_that_is_beyond_the_bounds_of_its_topic(kind):
    topic = config(max_message_bytes=str(MESSAGE_BYTES))
    produced = one_batch(TOO_MUCH[kind], topic)
    assert admit_at_once(produced, topic, NOW) is None
    with pytest.raises(LogError) as caught:
        admit(produced, topic, NOW)
    assert caught.value.error_code == 10


@pytest.mark.parametrize(
    "data",
    [batch(of_plain_bytes(EXPANSION * 1000 + 1), 1, "zstd"), batch(of_headers(1001), 1, "zstd"), batch(b"", 1001)],
    ids=["bytes", "headers", "records"],
)
def test_a_topic_of_small_messages_has_its_bounds_on_the_loop_too(data):
    topic = config(max_message_bytes="1000")
    assert admit_at_once(one_batch(data, topic), topic, NOW) is None
    with pytest.raises(LogError, match=r"max\.message\.bytes is 1000"):
        admit(one_batch(data, topic), topic, NOW)


# -- what is stored


@pytest.mark.parametrize("codec", COMPRESSING)
def test_lowering_max_message_bytes_orphans_no_batch(tmp_path, codec):
    settings = {"cleanup_policy": "compact", "compression_type": codec}
    log = open_log(tmp_path / "leader", **settings)
    append(log, values(bytes(900_000), key=b"large", compression=codec))
    append(log, values(b"v", key=b"other"))
    log.config = config(max_message_bytes="100", **settings)
    refused(log, values(bytes(900_000), compression=codec), 10)
    assert offset_for_timestamp(log, 0) == (0, NOW)
    clean(log)
    follower = open_log(tmp_path / "follower", max_message_bytes="100", **settings)
    follower.append_as_follower(log.read(0, 1 << 20), NOW)
    for each in (log, follower):
        assert [(found.offset, found.key) for found in records_in(all_bytes(each))] == [(0, b"large"), (1, b"other")]
        each.abandon()
