"""The brokers that hold a new partition's replicas: spread over brokers and racks. Pure rules."""

from __future__ import annotations

from collections.abc import Sequence

from actors import CoterieError


class NotEnoughBrokersError(CoterieError, ValueError):
    """More replicas were asked for than there are brokers."""


def by_rack(brokers: Sequence[tuple[int, str | None]]) -> list[int]:
    """Broker ids in an order that changes rack at every step for as long as it can."""
    racks: dict[str, list[int]] = {}
    for broker, rack in sorted(brokers, key=lambda item: item[0]):
        racks.setdefault(rack or "", []).append(broker)
    lines = [racks[name] for name in sorted(racks)]
    return [line[i] for i in range(max(map(len, lines), default=0)) for line in lines if i < len(line)]


def assign_replicas(
    brokers: Sequence[tuple[int, str | None]], partition_count: int, factor: int, start: int = 0
) -> list[tuple[int, ...]]:
    """Replicas of each new partition, the preferred leader first.

    `brokers` are (id, rack); `start` rotates the first leader, so that topics created one after the other do not
    all begin at the same broker. Raises NotEnoughBrokersError if `factor` exceeds the number of brokers.
    """
    order = by_rack(brokers)
    count = len(order)
    if factor > count or factor < 1:
        raise NotEnoughBrokersError(f"replication factor {factor} is out of range: {count} broker(s) are alive")
    racks = dict(brokers)
    result = []
    for partition in range(partition_count):
        first = (start + partition) % count
        # The followers' start moves on once every full circle, so that they too differ from leader to leader.
        shift = (start + partition) // count % max(count - 1, 1)
        line = [order[first]] + [order[(first + 1 + (shift + i) % (count - 1)) % count] for i in range(count - 1)]
        result.append(_distinct_racks_first(line, racks, factor))
    return result


def _distinct_racks_first(line: list[int], racks: dict[int, str | None], factor: int) -> tuple[int, ...]:
    chosen, seen = [line[0]], {racks[line[0]]}
    for broker in line[1:]:
        if len(chosen) < factor and racks[broker] is not None and racks[broker] not in seen:
            chosen.append(broker)
            seen.add(racks[broker])
    rest = (broker for broker in line[1:] if broker not in chosen)
    while len(chosen) < factor:
        chosen.append(next(rest))
    return tuple(chosen)
