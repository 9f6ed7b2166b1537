"""A rebalance as a row of the history, both ways."""

from __future__ import annotations

import json
from typing import Any, Final

from actors.links.views import RebalanceView, Waited

_FIELDS: Final = tuple(name for name in RebalanceView.__dataclass_fields__ if name != "waited")
_TUPLES: Final = frozenset(("came", "left", "expelled", "replaced"))


def packed(rebalance: RebalanceView) -> str:
    """The text of a rebalance. It begins with the name of its group: see `is_of`."""
    return json.dumps([getattr(rebalance, name) for name in _FIELDS] + [_waited_rows(rebalance)])


def is_of(text: str, group: str | None) -> bool:
    """Whether this is a rebalance of that group. Much cheaper than to read it."""
    return group is not None and text.startswith(f"[{json.dumps(group)}, ")


def unpacked(text: str) -> RebalanceView | None:
    """What `packed` was given; None if the text is nothing of that kind."""
    try:
        *values, waited = json.loads(text)
        named: dict[str, Any] = {
            name: tuple(value) if name in _TUPLES else value for name, value in zip(_FIELDS, values, strict=False)
        }
        str.encode(named["group_id"])
        return RebalanceView(**named, waited=tuple(Waited(*each) for each in waited))
    except (ValueError, TypeError):
        return None


def _waited_rows(rebalance: RebalanceView) -> list[list[object]]:
    return [[each.member_id, each.phase, each.ms, each.client_id, each.host] for each in rebalance.waited]
