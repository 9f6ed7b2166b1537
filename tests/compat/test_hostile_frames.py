"""Ten thousand frames that no client would send leave a broker serving, and its memory bounded.

Frames are valid ones of every API and version, made with our codec, then broken in a seeded way: bits flipped,
bytes cut out, put in or repeated, lengths and counts replaced by extreme ones. A seed that fails is in the
message.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

import psutil
import pytest

from actors.records.building import build_batch
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.framing import encode_request
from actors.wire.messages import ApiMessage, ApiVersionsRequest, HeartbeatRequest, MetadataRequest
from tests.compat.drivers import Confluent
from tests.compat.peers import Peer
from tests.compat.raw import RawMember, create_topics, form_group
from tests.compat.support import against, numbered_records, wait_until

FRAMES = 10_000
AT_ONCE = 50
SEED = 20_241_025
MEMORY_LIMIT_BYTES = 400 << 20
GROWTH_LIMIT_BYTES = 128 << 20
# Valid requests of these kinds change what the rest of the run stands on.
LEFT_WHOLE = {"CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"}

brokers = against("coterie")


def _requests() -> Iterator[tuple[type[ApiMessage], int]]:
    for key in range(100):
        with contextlib.suppress(KeyError):
            cls = messages.request_class(key)
            for version in range(cls.min_version, cls.max_version + 1):
                yield cls, version


def _filled(cls: type[ApiMessage], chance: random.Random) -> ApiMessage:
    """A request with something in most of its fields, arrays of structs included."""
    return _struct(cls, cls.__name__, chance)


def _struct(cls: type[ApiMessage], struct_name: str, chance: random.Random) -> Any:
    return cls.layout.classes[struct_name](
        **{name: _value(cls, kind, default, chance) for name, kind, _, _, default, _ in cls.layout.structs[struct_name]}
    )


def _value(cls: type[ApiMessage], kind: str, default: Any, chance: random.Random) -> Any:
    if kind.startswith("[]"):
        return [_value(cls, kind[2:], None, chance) for _ in range(chance.randrange(3))]
    if kind in cls.layout.structs:
        return _struct(cls, kind, chance)
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "string":
            return chance.choice(["", "hostile", default or "", "g" * chance.randrange(300)])
        case "bytes" | "records":
            return chance.choice([b"", _BATCH, chance.randbytes(chance.randrange(100))])
        case "uuid":
            return chance.randbytes(16)
        case "float64":
            return chance.random()
        case _:
            return chance.choice([0, 1, default or 0, chance.randrange(-128 if kind[0] == "i" else 0, 128)])


_BATCH = build_batch([(b"key", b"value", [], 1_700_000_000_000)])


def _valid_frames(chance: random.Random) -> list[bytes]:
    return [
        encode_request(_filled(cls, chance), version, chance.randrange(1 << 31), "hostile")
        for cls, version in _requests()
        for _ in range(3)
    ]


EXTREMES = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\x7f\xff", b"\xff\xff\xff\xff\x0f"]


def _broken(frame: bytes, chance: random.Random) -> bytes:
    """The frame with one to four things wrong; half the time its length is put right afterwards."""
    body = bytearray(frame[4:])
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(body)) if body else 0
        match chance.randrange(6):
            case 0 if body:
                body[at] ^= 1 << chance.randrange(8)
            case 1:
                del body[at : at + chance.randrange(1, 9)]
            case 2:
                body[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                piece = chance.choice(EXTREMES)
                body[at : at + len(piece)] = piece
            case 4:
                body[at:at] = body[at : at + 64] * chance.randrange(1, 8)
            case _:
                del body[at:]
    length = len(body)
    if chance.random() < 0.1:
        length = chance.choice([0, -1, 1, length - 1, length + 100, 1 << 30, (1 << 31) - 1, -(1 << 31)])
    return struct.pack(">i", length) + bytes(body)


def _corpus() -> Iterator[bytes]:
    chance = random.Random(SEED)
    valid = _valid_frames(chance)
    tame = [f for f in valid if messages.api_name(struct.unpack_from(">h", f, 4)[0]) not in LEFT_WHOLE]
    for number in range(FRAMES):
        if number % 10 == 0:
            yield chance.randbytes(chance.randrange(1, 200))
        elif number % 10 == 1:
            yield chance.choice(tame)
        else:
            yield _broken(chance.choice(valid), chance)


def _throw(address: str, frames: Sequence[bytes]) -> int:
    """Each frame on a connection of its own, all at once; then an end. Returns how many were answered."""
    host, _, port = address.rpartition(":")
    open_sockets = []
    try:
        for frame in frames:
            s = socket.create_connection((host, int(port)), 10)
            open_sockets.append(s)
            with contextlib.suppress(OSError):
                s.sendall(frame)
                s.shutdown(socket.SHUT_WR)
        return _read_until_closed(open_sockets, 0.5)
    finally:
        for s in open_sockets:
            s.close()


def _read_until_closed(sockets: Sequence[socket.socket], timeout_s: float) -> int:
    waiting, answered = set(sockets), set()
    deadline = time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline:
        for s in wait(list(waiting), 0.05):
            try:
                if s.recv(1 << 16):
                    answered.add(s)
                else:
                    waiting.discard(s)
            except OSError:
                waiting.discard(s)
    return len(answered)


def _memory(kafka: Peer) -> int:
    """Resident bytes of the largest process that serves clients."""
    sizes = [0]
    for pid in kafka.broker_pids() + kafka.shard_pids():
        with contextlib.suppress(psutil.NoSuchProcess):  # a spare shard may end
            sizes.append(psutil.Process(pid).memory_info().rss)
    return max(sizes)


def _beats(member: RawMember) -> int:
    beat = HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.member_id)
    code: int = member.raw.call(beat, 3).error_code
    return code


def _still_serves(kafka: Peer, topic: str, member: RawMember) -> None:
    assert _beats(member) == 0, "a member of a Stable group was disturbed"
    records = numbered_records(100)
    driver = Confluent()
    driver.produce(kafka.bootstrap_servers, topic, records, compression="none", idempotent=True)
    assert sorted(driver.consume(kafka.bootstrap_servers, topic, 100)) == records


@pytest.fixture
def member(kafka: Peer, name: str) -> Iterator[RawMember]:
    """A member of a Stable group that was there before the attack."""
    create_topics(kafka.bootstrap_servers, {name: 3})
    (member,) = form_group(kafka.bootstrap_servers, name, 1, session_timeout_ms=120_000)
    with member.raw:
        yield member


@brokers
def test_ten_thousand_broken_frames(kafka: Peer, name: str, member: RawMember) -> None:
    addresses = kafka.bootstrap_servers.split(",")
    pids, before = kafka.broker_pids(), _memory(kafka)
    frames = list(_corpus())
    assert len(frames) == FRAMES
    answered = 0
    for start in range(0, FRAMES, AT_ONCE):
        answered += _throw(addresses[start // AT_ONCE % len(addresses)], frames[start : start + AT_ONCE])
        assert _beats(member) == 0, f"after frame {start} of seed {SEED}"
    assert answered > FRAMES // 20, "hardly a frame got as far as an answer: the corpus is too broken to test much"
    assert kafka.broker_pids() == pids, "a broker died and was replaced"
    if kafka.kind == "coterie":
        after = _memory(kafka)
        assert after < MEMORY_LIMIT_BYTES
        assert after - before < GROWTH_LIMIT_BYTES, f"{before >> 20} MiB before, {after >> 20} MiB after"
    _still_serves(kafka, name, member)


def _connect(kafka: Peer) -> socket.socket:
    host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def _is_closed(s: socket.socket, timeout_s: float = 60) -> bool:
    s.settimeout(timeout_s)
    try:
        while s.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@brokers
@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">i", (1 << 31) - 1),
        struct.pack(">i", -1),
        struct.pack(">i", -(1 << 31)),
        struct.pack(">i", 200 << 20),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">ihhih", 10, 9999, 0, 1, -1),
        struct.pack(">ihhih", 10, -5, 0, 1, -1),
        struct.pack(">ihhih", 10, HeartbeatRequest.api_key, 99, 1, -1),
        struct.pack(">ihhih", 10, HeartbeatRequest.api_key, -1, 1, -1),
    ],
    ids=[
        "huge",
        "negative",
        "least",
        "above-the-limit",
        "http",
        "tls",
        "api",
        "api-below-0",
        "version",
        "version-below-0",
    ],
)
def test_a_frame_that_cannot_be_closes_its_connection_alone(
    kafka: Peer, name: str, member: RawMember, head: bytes
) -> None:
    with _connect(kafka) as s:
        s.sendall(head)
        assert _is_closed(s)
    assert _beats(member) == 0


@brokers
@pytest.mark.conformance("K-I-29")
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(kafka: Peer) -> None:
    with _connect(kafka) as s:
        s.sendall(struct.pack(">ihhihb", 11, ApiVersionsRequest.api_key, 99, 77, -1, 0))
        s.settimeout(60)
        size, correlation_id, error = struct.unpack(">iih", _read(s, 10))
        assert (correlation_id, error) == (77, ErrorCode.UNSUPPORTED_VERSION)
        assert _read(s, size - 6) == struct.pack(">ihhh", 1, ApiVersionsRequest.api_key, 0, 5)
        # The connection goes on: clients ask again in a version that exists.
        s.sendall(encode_request(ApiVersionsRequest(), 0, 78, "again"))
        size, correlation_id, error = struct.unpack(">iih", _read(s, 10))
        assert (correlation_id, error) == (78, 0)


def _read(s: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = s.recv(count - len(data))
        assert piece, "closed"
        data += piece
    return data


@brokers
def test_half_a_frame_and_then_an_end_disturbs_nobody(kafka: Peer, name: str, member: RawMember) -> None:
    whole = encode_request(MetadataRequest(topics=None), 5, 1, "half")
    for cut in range(1, len(whole)):
        with _connect(kafka) as s:
            s.sendall(whole[:cut])
    assert _beats(member) == 0


@brokers
def test_a_frame_that_trickles_in_is_answered_and_delays_nobody(kafka: Peer, name: str, member: RawMember) -> None:
    whole = encode_request(MetadataRequest(topics=[]), 5, 4711, "slow")
    took = []
    with _connect(kafka) as s:
        for n in range(len(whole)):
            s.sendall(whole[n : n + 1])
            started = time.monotonic()
            assert _beats(member) == 0
            took.append(time.monotonic() - started)
        s.settimeout(60)
        _, correlation_id = struct.unpack(">ii", _read(s, 8))
    assert correlation_id == 4711
    assert sorted(took)[-3] < 1.0  # during one or two the machine may have stood still


@against("coterie")
def test_promised_bytes_take_no_memory(kafka: Peer, name: str, member: RawMember) -> None:
    """A hundred connections announce 99 MiB each and send little of it: only what came is kept."""
    before = _memory(kafka)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            s = stack.enter_context(_connect(kafka))
            s.sendall(struct.pack(">ihh", 99 << 20, 0, 7) + bytes(4096))
        wait_until(lambda: _beats(member) == 0, what="a heartbeat")
        assert _memory(kafka) - before < 64 << 20
