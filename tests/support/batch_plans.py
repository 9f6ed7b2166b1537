"""Random record batches behind a right checksum, for Hypothesis: good ones of every make, and bad ones of every kind.

Nothing here uses `actors.records`. About half of the batches have nothing wrong; the others have one or two oddities,
of which a broker may take some.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.support import raw_batches as raw
from tests.support.batch_packings import PACKINGS

NOW = int(time.time() * 1000)
DAY = 86_400_000
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
MAX_MESSAGE_BYTES = 64 << 10
"""The limit of the fuzzing's topics: it is small, so that batches above it are, too."""

_PRODUCERS = st.tuples(st.integers(0, LONG_MAX), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))


@dataclass(frozen=True, repr=False)
class Plan:
    """A batch as it is sent, and the marks of its oddities."""

    codec: str
    plain: bytes
    count: int
    packing: str = "one"
    packed: bytes | None = None
    header: dict[str, Any] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    around: Callable[[bytes], bytes] = bytes
    """The change to the whole batch."""

    def __repr__(self) -> str:
        """Short: the records of some fill megabytes."""
        about = f"{self.marks}, {self.count} records, {self.header}, records {self.plain[:200].hex()}"
        return f"Plan({about}, frame {self._content()[:200].hex()})"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """As Hypothesis prints it, too, which has a look at the fields of a dataclass otherwise."""
        printer.text(repr(self))

    def data(self, producer_id: int) -> bytes:
        """All bytes that the partition gets. `producer_id`: one that is new, for a batch that has a producer."""
        header = self.header
        if "producer" in header and header["producer"][0] >= 0:
            header = {**header, "producer": (producer_id, *header["producer"][1:])}
        return self.around(raw.batch(self.plain, self.count, self.codec, packed=self._content(), **header))

    def _content(self) -> bytes:
        return PACKINGS[self.codec][self.packing](self.plain) if self.packed is None else self.packed

    def repacked(self, change: Callable[[bytes], bytes], mark: str) -> Plan:
        return replace(self, packed=change(self._content()), marks=(*self.marks, mark))

    def inside(self, change: Callable[[bytes], bytes], mark: str) -> Plan:
        return replace(self, plain=change(self.plain), marks=(*self.marks, mark))

    def stating(self, mark: str, **fields: Any) -> Plan:
        return replace(self, header={**self.header, **fields}, marks=(*self.marks, mark))

    def outside(self, change: Callable[[bytes], bytes], mark: str) -> Plan:
        before = self.around
        return replace(self, around=lambda data: change(before(data)), marks=(*self.marks, mark))


# -- records

_NAMES = st.one_of(
    st.text(max_size=5).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from([b"", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", "ü€𝄞".encode(), b"n" * 300]),
    st.binary(max_size=4),
)
_SMALL = st.binary(max_size=12)
_SHARED_KEY = b"shared"
_SHARED = st.integers(0, 19).map(lambda n: _SHARED_KEY + b"%d" % n if n < 3 else b"")
"""A key that other records have, too, or none."""
_CONTENTS = st.one_of(st.none(), st.just(b""), _SMALL)
_HEADERS = st.one_of(
    st.just([]),
    st.just([]),
    st.lists(st.tuples(_NAMES, _CONTENTS), max_size=4),
    st.tuples(_NAMES, _CONTENTS, st.integers(5, 150)).map(lambda drawn: [drawn[:2]] * drawn[2]),
)
_VALUES = st.one_of(
    _CONTENTS,
    st.binary(max_size=60),
    st.integers(60, 3000).map(bytes),
    st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 400)).map(lambda drawn: drawn[0] * drawn[1]),
)
_USUAL_TIMES = st.one_of(st.just(NOW), st.integers(NOW - 9 * DAY, NOW + DAY // 100))
_ODD_TIMES = st.one_of(
    st.sampled_from([-1, 0, 1, -2, LONG_MIN, LONG_MAX, LONG_MIN + 1, NOW + 9 * DAY, NOW + 9000 * DAY, 2**31, -(2**40)]),
    st.integers(-DAY, NOW),
)


@st.composite
def records(draw: Any, times: st.SearchStrategy[int], first: int) -> tuple[list[dict[str, Any]], int]:
    """The fields of some records, and how often all of them are repeated, under other keys but for shared ones."""
    keyless = draw(st.integers(0, 7)) == 0
    salt = draw(st.binary(min_size=6, max_size=6))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        key = None if keyless and draw(st.booleans()) else draw(_SHARED) or salt + draw(_SMALL)
        made.append(
            {
                "key": key,
                "value": draw(_VALUES),
                "headers": draw(_HEADERS),
                "time": _wrapped(draw(times) - first),
                "attributes": draw(st.sampled_from([0] * 40 + [1, 64, 128, 255])),
            }
        )
    return made, draw(st.sampled_from([1] * 30 + [9, 9, 26, 26, 26, 60, 60, 60, 200, 2000]))


def _wrapped(delta: int) -> int:
    """As a delta of 64 bits: Java's sums wrap round."""
    return (delta - LONG_MIN) % 2**64 + LONG_MIN


def encoded(fields: Sequence[dict[str, Any]], copies: int) -> list[bytes]:
    """The records, with offset deltas 0, 1, 2, ... and mostly keys of their own, until they are a few MiB."""
    made, size = [], 0
    for copy in range(copies):
        for each in fields:
            key = each["key"]
            if key is not None and not key.startswith(_SHARED_KEY):
                key += b"/%d/%d" % (copy, len(made))
            made.append(raw.record(len(made), **{**each, "key": key}))
            size += len(made[-1])
        if size > 3 << 20:
            break
    return made


# -- oddities

_NUMBERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([-(2**31), 2**31 - 1, 2**31, 2**32, 2**35, 2**63, 64, 1000, 100_000])
)


def _changed(draw: Any, data: bytes) -> bytes:
    """A byte set, removed, doubled, or the end cut off."""
    if not data:
        return b"\0"
    at = min(draw(st.integers(0, min(len(data), 4000) - 1)), len(data) - 1)
    if draw(st.booleans()):
        at = len(data) - 1 - at
    match draw(st.integers(0, 4)):
        case 0:
            return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
        case 2:
            return data[:at] + data[at + 1 :]
        case 3:
            return data[: at + 1] + data[at:]
    return data[:at]


def _odd_record(draw: Any, plan: Plan, fields: list[dict[str, Any]], copies: int) -> Plan:
    """One number in one record is another, or is written in more bytes than it needs."""
    made = encoded(fields, copies)
    index = draw(st.integers(0, len(made) - 1))
    name = draw(st.sampled_from(["offset", "time", "length", "key_size", "value_size", "header_count"]))
    number = draw(_NUMBERS)
    given = raw.varint(number, draw(st.sampled_from([0, 0, 1, 2, 5, 6, 10, 11])))
    shape = {**fields[index % len(fields)], name: given}
    offset = shape.pop("offset", index)
    made[index] = raw.record(offset, **shape)
    return replace(plan, plain=b"".join(made), marks=(*plan.marks, f"{name} of a record is {number}"))


def _wide(draw: Any, plan: Plan, fields: list[dict[str, Any]], copies: int) -> Plan:
    """The right numbers, in more bytes than they need."""
    width = draw(st.integers(2, 6))
    made = encoded(fields, copies)
    index = draw(st.integers(0, len(made) - 1))
    shape = dict(fields[index % len(fields)])
    name = draw(st.sampled_from(["offset", "time", "key_size", "value_size", "header_count"]))
    right = {
        "offset": index,
        "time": shape["time"],
        "key_size": -1 if shape["key"] is None else len(shape["key"]),
        "value_size": -1 if shape["value"] is None else len(shape["value"]),
        "header_count": len(shape["headers"]),
    }[name]
    shape[name] = raw.varint(right, width)
    offset = shape.pop("offset", index)
    made[index] = raw.record(offset, **shape)
    return replace(plan, plain=b"".join(made), marks=(*plan.marks, f"{name} of a record in {width} bytes"))


def _odd_batch(draw: Any, plan: Plan) -> Plan:
    """Something is wrong, or only unusual, with the batch around the records."""
    count = plan.count
    some = st.one_of(st.integers(-3, 3).map(lambda by: count + by), _NUMBERS).filter(lambda n: -(2**31) <= n < 2**31)
    match draw(st.integers(0, 15)):
        case 0:
            number = draw(some)
            return replace(plan, count=number, marks=(*plan.marks, f"count {number}")).stating(
                "last delta stays", last_offset_delta=count - 1
            )
        case 1:
            number = draw(some)
            return plan.stating(f"last delta {number}", last_offset_delta=number)
        case 2:
            number = draw(some.filter(lambda n: n > 0))
            return replace(plan, count=number, marks=(*plan.marks, f"count and last delta of {number}"))
        case 3:
            return plan.stating("some base offset", base_offset=draw(st.integers(LONG_MIN, LONG_MAX)))
        case 4:
            return plan.stating("some attributes", attributes=draw(st.sampled_from([1 << n for n in range(3, 15)])))
        case 5:
            bits = draw(st.integers(-(2**15), 2**15 - 1)) & ~7
            return plan.stating("any attributes", attributes=bits)
        case 6:
            return plan.stating("an idempotent producer", producer=draw(_PRODUCERS))
        case 7:
            odd = tuple(draw(st.sampled_from([-2, -1, 0, 1, low, high])) for low, high in _PRODUCER_ENDS)
            return plan.stating(f"producer {odd}", producer=odd)
        case 8:
            return plan.stating("some leader epoch", leader_epoch=draw(st.integers(-(2**31), 2**31 - 1)))
        case 9:
            return plan.stating("other magic", magic=draw(st.sampled_from([-128, -1, 0, 1, 3, 127])))
        case 10:
            return plan.outside(lambda data: data + data, "twice in one request")
        case 11:
            cut = draw(st.integers(1, 80))
            return plan.outside(lambda data: data + data[:cut], "the beginning of another one behind it")
        case 12:
            codec = draw(st.sampled_from([5, 6, 7]))
            return plan.stating(f"codec {codec}", attributes=codec) if plan.codec == "none" else plan
        case 13:
            other = draw(st.sampled_from([name for name in raw.CODECS if name != plan.codec]))
            return replace(plan.repacked(bytes, f"says {other}"), codec=other)
        case 14:
            return plan.repacked(PACKINGS[plan.codec]["one"], "compressed twice")
    size = draw(st.sampled_from([1 << 20, (2 << 20) + 1, 3 << 20, 200 << 20]))
    codec = "zstd" if size > 3 << 20 else plan.codec
    packed = raw.bomb(codec, size) if codec != "none" else bytes(draw(st.sampled_from([100, MAX_MESSAGE_BYTES])))
    return replace(plan, codec=codec, packed=packed, marks=(*plan.marks, f"zeros that are {size}"))


_PRODUCER_ENDS = ((LONG_MIN, LONG_MAX), (-(2**15), 2**15 - 1), (-(2**31), 2**31 - 1))


def _odd_bytes(draw: Any, plan: Plan) -> Plan:
    match draw(st.integers(0, 3)):
        case 0:
            more = draw(st.one_of(st.binary(min_size=1, max_size=9), st.just(bytes(3))))
            return plan.inside(lambda plain: plain + more, "bytes behind the records")
        case 1:
            more = draw(st.one_of(st.binary(min_size=1, max_size=9), st.just(bytes(8))))
            return plan.repacked(lambda packed: packed + more, "bytes behind the frame")
        case 2:
            return plan.inside(lambda plain: _changed(draw, plain), "records with another byte")
    return plan.repacked(lambda packed: _changed(draw, packed), "a frame with another byte")


@st.composite
def plans(draw: Any) -> Plan:
    """Any batch."""
    usual = draw(st.integers(0, 3)) > 0
    times = _USUAL_TIMES if usual else _ODD_TIMES
    first = draw(times)
    fields, copies = draw(records(times, first))
    made = encoded(fields, copies)
    codec = draw(st.sampled_from(list(raw.CODECS)))
    packing = draw(st.one_of(st.just("one"), st.sampled_from(list(PACKINGS[codec]))))
    plan = Plan(codec, b"".join(made), len(made), packing, marks=(codec, packing))
    latest = draw(st.one_of(st.just(NOW), st.just(max(first + each["time"] for each in fields)), _ODD_TIMES))
    plan = plan.stating("", first_time=first, max_time=max(LONG_MIN, min(LONG_MAX, latest)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2]))):
        match draw(st.integers(0, 5)):
            case 0:
                plan = _odd_record(draw, plan, fields, copies)
            case 1:
                plan = _wide(draw, plan, fields, copies)
            case 2 | 3:
                plan = _odd_bytes(draw, plan)
            case _:
                plan = _odd_batch(draw, plan)
    return plan
