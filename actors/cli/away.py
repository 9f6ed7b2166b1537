"""The words of `coterie status` for a broker that is away, is about to go, or has yet to catch up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from actors.cli.output import plural, size
from actors.links.broker_words import leaving, moment
from actors.links.removals import RemovalStatus

_NAMED: Final = 3


def away(broker: dict[str, Any]) -> Iterator[str]:
    """The words for a broker of `Cluster.status`; none if it is there, stays and is in sync everywhere."""
    if broker["absence"]:
        yield from _absent(broker["id"], broker["absence"], leaves=broker["removal"] is not None)
    removal = broker["removal"] and RemovalStatus(**broker["removal"])
    yield from leaving(removal, broker["drained_until_ms"])
    if refill := broker["refill"]:
        left = size(refill["size_bytes"])
        yield f"out of sync in {plural(refill['partitions'], 'partition')}, about {left} left"


def _absent(broker_id: int, absence: dict[str, Any], *, leaves: bool) -> Iterator[str]:
    since = moment(absence["since_ms"])
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
        yield f"it is replaced by itself at {moment(absence['replaced_at_ms'])}, or now by {command} --node-is-off"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
