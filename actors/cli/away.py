"""The words of `coterie status` for a broker that is away, is about to lose its node, or has yet to catch up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from actors.cli.output import plural, size

_NAMED: Final = 3
_LAST_DATE_MS: Final = 253_402_300_799_000  # the year 9999: settings may be longer than dates


def away(broker: dict[str, Any]) -> Iterator[str]:
    """The words for a broker of `Cluster.status`; none if it is there, stays and is in sync everywhere."""
    if broker["absence"]:
        yield from _absent(broker["id"], broker["absence"], leaves=broker["removal"] is not None)
    if broker["drained_until_ms"] is not None:
        yield _drained(broker["drained_until_ms"])
    if refill := broker["refill"]:
        left = size(refill["size_bytes"])
        yield f"out of sync in {plural(refill['partitions'], 'partition')}, about {left} left"


def _absent(broker_id: int, absence: dict[str, Any], *, leaves: bool) -> Iterator[str]:
    since = _time(absence["since_ms"])
    if absence["replaced"]:
        yield f"replaced: it is started with an empty directory, and is away since {since}"
        return
    yield f"its node is gone, since {since}" if absence["node_is_gone"] else f"away since {since}"
    if leaves or not absence["node_is_gone"]:
        return
    command = f"coterie brokers replace {broker_id}"
    if alone := absence["sole_copies"]:
        yield (
            f"it is not replaced by itself, for it alone has everything of {_some(alone)}: bring its node or its disk "
            f"back, or type {command} --accept-data-loss"
        )
    elif others := absence["copies_away"]:
        yield (
            f"it is not replaced by itself while the other copies of {_some(others)} are away: bring one of them back, "
            f"or type {command}"
        )
    elif absence["replaced_at_ms"] is None:
        yield f"it is not replaced by itself: type {command}"
    else:
        yield f"it is replaced by itself at {_time(absence['replaced_at_ms'])}, or now by {command} --node-is-off"


def _drained(until_ms: int) -> str:
    until = f", until {_time(until_ms)}" if until_ms else ""
    return f"its Ray node is drained{until}: it leads only what no other broker can lead"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _time(ms: int) -> str:
    return datetime.fromtimestamp(min(ms, _LAST_DATE_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
