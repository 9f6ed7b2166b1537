"""A rebalance as a row of the history, both ways.

Those of classic groups are arrays of values, as they were before there were other types. Those of other types are an
array of two: the group's id, and the bytes that go over links, in base64.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any, Final

from actors.links.codec import Codec, LinkError
from actors.links.group_status import GROUP_CLASSES, GroupReport
from actors.links.views import ClassicRebalanceView, RebalanceView, Waited

_FIELDS: Final = tuple(name for name in ClassicRebalanceView.__dataclass_fields__ if name != "waited")
_TUPLES: Final = frozenset(("came", "left", "expelled", "replaced"))
_CODEC: Final[Codec[GroupReport]] = Codec("history", GROUP_CLASSES)


def packed(rebalance: RebalanceView) -> str:
    """The text of a rebalance. It begins with the name of its group: see `is_of`."""
    if isinstance(rebalance, ClassicRebalanceView):
        return json.dumps([getattr(rebalance, name) for name in _FIELDS] + [_waited_rows(rebalance)])
    return json.dumps([rebalance.group_id, b64encode(_CODEC.encode(rebalance)).decode()])


def is_of(text: str, group: str | None) -> bool:
    """True if this is a rebalance of that group. Much cheaper than to read it."""
    return group is not None and text.startswith(f"[{json.dumps(group)}, ")


def unpacked(text: str) -> RebalanceView | None:
    """The rebalance that `packed` was given; None if the text is nothing of that kind."""
    try:
        values = json.loads(text)
        return _of_bytes(*values) if len(values) == 2 else _of_classic(values)
    except (ValueError, TypeError, KeyError, LinkError):
        return None


def _of_bytes(group_id: str, body: str) -> RebalanceView | None:
    found = _CODEC.decode(b64decode(body, validate=True))
    return found if isinstance(found, RebalanceView) and found.group_id == group_id else None


def _of_classic(row: list[Any]) -> ClassicRebalanceView:
    *values, waited = row
    named: dict[str, Any] = {
        name: tuple(value) if name in _TUPLES else value for name, value in zip(_FIELDS, values, strict=False)
    }
    str.encode(named["group_id"])
    return ClassicRebalanceView(**named, waited=tuple(Waited(*each) for each in waited))


def _waited_rows(rebalance: RebalanceView) -> list[list[object]]:
    return [[each.member_id, each.phase, each.ms, each.client_id, each.host] for each in rebalance.waited]
