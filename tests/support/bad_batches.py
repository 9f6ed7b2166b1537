"""Batches that no producer should send, each with a right checksum: kinds by name, for each codec and many lengths."""

from __future__ import annotations

import gzip
from collections.abc import Callable

from tests.support.raw_batches import batch, pack, record, records, varint

LONG_MAX = 2**63 - 1


def one_bad(**fields: object) -> Callable[[int], bytes]:
    """Right records but for one in the middle, with these arguments of `record`."""

    def payload(count: int) -> bytes:
        given = [record(number) for number in range(count)]
        given[count // 2] = record(**{"offset": count // 2, **fields})  # type: ignore[arg-type]
        return b"".join(given)

    return payload


def deltas(given: Callable[[int], list[int]]) -> Callable[[int], bytes]:
    return lambda count: b"".join(record(delta) for delta in given(count))


def _swapped(count: int) -> list[int]:
    return [*range(count - 2), count - 1, count - 2]


def _repeated(count: int) -> list[int]:
    return [*range(count - 1), count - 2]


def _gapped(count: int) -> list[int]:
    return [*range(count - 1), count]


BAD_PAYLOADS: dict[str, Callable[[int], bytes]] = {
    "no records": lambda count: b"these are no records, but a line of text " * count,
    "zeros": lambda count: bytes(9 * count),
    "nothing": lambda count: b"",
    "trailing byte": lambda count: records(count) + b"\0",
    "trailing record": lambda count: records(count + 1),
    "record missing": lambda count: records(count - 1),
    "last record cut": lambda count: records(count)[:-1],
    "deltas 0, 2, 1": deltas(_swapped),
    "deltas 1, 2, 3": deltas(lambda count: list(range(1, count + 1))),
    "deltas repeated": deltas(_repeated),
    "deltas with a gap": deltas(_gapped),
    "deltas negative": deltas(lambda count: [-1, *range(1, count)]),
    "record length too small": one_bad(length=6),
    "record length too large": one_bad(length=10),
    "record length zero": one_bad(length=0),
    "record length negative": one_bad(length=-1),
    "record length huge": one_bad(length=2**31 - 1),
    "key length negative": one_bad(key_size=-2),
    "key length very negative": one_bad(key_size=-(2**31)),
    "key beyond the record": one_bad(key_size=9),
    "key beyond everything": one_bad(key_size=2**31 - 1),
    "value length negative": one_bad(value_size=-2),
    "value length very negative": one_bad(value_size=-(2**31)),
    "value beyond the record": one_bad(value_size=9),
    "value beyond everything": one_bad(value_size=2**31 - 1),
    "headers missing": one_bad(header_count=1),
    "headers not counted": one_bad(headers=[(b"a", b"b")], header_count=0),
    "one header of two counted": one_bad(headers=[(b"a", b"b"), (b"c", b"d")], header_count=1),
    "three headers of two counted": one_bad(headers=[(b"a", b"b"), (b"c", b"d")], header_count=3),
    "header count negative": one_bad(header_count=-1),
    "header name null": one_bad(header_count=1, header_bytes=varint(-1) + varint(0)),
    "header value length negative": one_bad(header_count=1, header_bytes=varint(0) + varint(-2)),
    "header name beyond the record": one_bad(header_count=1, header_bytes=varint(9) + varint(-1)),
    "header value beyond the record": one_bad(header_count=1, header_bytes=varint(0) + varint(9)),
    "record length of six bytes": one_bad(length=varint(8, 6)),
    "key length of six bytes": one_bad(key_size=varint(1, 6)),
    "value length of six bytes": one_bad(value_size=varint(1, 6)),
    "header count of six bytes": one_bad(header_count=varint(0, 6)),
    "header name of six bytes of length": one_bad(header_count=1, header_bytes=varint(0, 6) + varint(-1)),
    "offset of six bytes": lambda count: record(varint(0, 6)) + b"".join(record(n) for n in range(1, count)),
    "time of eleven bytes": one_bad(time=varint(1, 11)),
    "time of more than 64 bits": one_bad(time=b"\xff" * 9 + b"\x02"),
}
"""Payloads by the number of records that the header counts, from three on: each is INVALID_RECORD in every codec."""


def _with_count(shift: Callable[[int], int], *, alike: bool) -> Callable[[int, str], bytes]:
    """A header that counts other records than there are; `alike`: the last offset delta fits the count."""

    def made(count: int, codec: str) -> bytes:
        stated = shift(count)
        return batch(records(count), stated, codec, last_offset_delta=stated - 1 if alike else count - 1)

    return made


def _twice(count: int, codec: str) -> bytes:
    once = gzip.compress(records(count)) if codec == "none" else pack(codec, records(count))
    return batch(once, count, codec)


BAD_BATCHES: dict[str, Callable[[int, str], bytes]] = {
    "garbage instead of a frame": lambda count, codec: batch(b"", count, codec, packed=b"\x01garbage " * 40),
    "an empty frame": lambda count, codec: batch(b"", count, codec, packed=b""),
    "compressed twice": _twice,
    "count too high": _with_count(lambda count: count + 1, alike=True),
    "count too low": _with_count(lambda count: count - 1, alike=True),
    "only the count too high": _with_count(lambda count: count + 1, alike=False),
    "only the count too low": _with_count(lambda count: count - 1, alike=False),
    "count zero": _with_count(lambda count: 0, alike=True),
    "only the count zero": _with_count(lambda count: 0, alike=False),
    "count negative": _with_count(lambda count: -1, alike=True),
    "only the count negative": _with_count(lambda count: -1, alike=False),
    "last offset delta too high": lambda count, codec: batch(records(count), count, codec, last_offset_delta=count),
    "last offset delta zero": lambda count, codec: batch(records(count), count, codec, last_offset_delta=0),
    "last offset delta negative": lambda count, codec: batch(records(count), count, codec, last_offset_delta=-1),
    "base offset 7": lambda count, codec: batch(records(count), count, codec, base_offset=7),
    "base offset negative": lambda count, codec: batch(records(count), count, codec, base_offset=-1),
    "two batches": lambda count, codec: batch(records(count), count, codec) * 2,
    "a batch and part of one": lambda count, codec: (batch(records(count), count, codec) * 2)[:-1],
    "a batch and a byte": lambda count, codec: batch(records(count), count, codec) + b"\0",
    "a control batch": lambda count, codec: batch(records(count), count, codec, attributes=0x20),
    "time beyond 64 bits": lambda count, codec: batch(
        records(count, range(count)), count, codec, first_time=LONG_MAX - 1, max_time=LONG_MAX
    ),
    "time below 64 bits": lambda count, codec: batch(
        records(count, [0, *[-1] * (count - 1)]), count, codec, first_time=-LONG_MAX - 1, max_time=-1
    ),
    **{
        name: lambda count, codec, payload=payload: batch(payload(count), count, codec)  # type: ignore[misc]
        for name, payload in BAD_PAYLOADS.items()
    },
}
"""Batches by number of records, from three on, and codec: each is INVALID_RECORD."""
