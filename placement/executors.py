"""The Ray node of each Spark executor: on the nodes of brokers, as far as these have room. Pure rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors import CoterieError


@dataclass(frozen=True, slots=True)
class Room:
    """A living Ray node's free resources for executors; `brokers` is the number of brokers on it."""

    node_id: str
    address: str
    cpus: float
    memory_bytes: float
    brokers: int = 0


class NoRoomError(CoterieError, RuntimeError):
    """The executors do not fit. The text is one line and says what was asked for and what there is."""


def place_executors(rooms: Sequence[Room], count: int, cores: float, memory_bytes: int) -> list[str]:
    """The ids of the nodes for `count` executors of `cores` CPUs and `memory_bytes` bytes each.

    The nodes with brokers come first, in turn, so that records are near and machines are shared evenly; then come the
    nodes without brokers. Raises NoRoomError if some executors do not fit.
    """
    used = {room.node_id: 0 for room in rooms}
    placed: list[str] = []
    for _ in range(count):
        free = [room for room in rooms if _fits(room, used[room.node_id] + 1, cores, memory_bytes)]
        if not free:
            raise NoRoomError(_why(rooms, count, cores, memory_bytes, len(placed)))
        node = min(free, key=lambda room: (not room.brokers, used[room.node_id], -room.brokers, -room.cpus))
        used[node.node_id] += 1
        placed.append(node.node_id)
    return placed


def _fits(room: Room, count: int, cores: float, memory_bytes: int) -> bool:
    return count * cores <= room.cpus and count * memory_bytes <= room.memory_bytes


def _why(rooms: Sequence[Room], count: int, cores: float, memory_bytes: int, fitting: int) -> str:
    nodes = (f"{room.address} has {room.cpus:g} CPU(s) and {_mib(room.memory_bytes)} free" for room in rooms)
    return (
        f"num_executors={count} with executor_cores={cores:g} and executor_memory={_mib(memory_bytes)} do not fit: "
        f"there is room for {fitting} ({'; '.join(nodes) or 'no living Ray node'})"
    )


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):.0f}m"
