"""Views of groups cross links by type: classic ones in their old form, others with fields of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import pytest

from actors.coordinator.classic.reports import ClassicRebalanceView, ClassicStatus
from actors.coordinator.groups.reports import PlainRebalanceView, PlainStatus, RebalanceEvent, RebalanceView, Waited
from actors.links import control, relay
from actors.links.codec import Codec, LinkError
from actors.links.group_status import GROUP_CLASSES, WITHOUT_TAG
from actors.links.observations import Happenings, NumberedRebalance
from actors.links.operations import GroupSeen
from actors.links.rebalances import Rebalances, Rebalancing
from actors.links.views import GroupHistory

CLASSIC = ClassicRebalanceView("g", 100, 6, "member left", "m-2", "c", "/h", 130, 140, 2, left=("m-2",))
TINY = PlainRebalanceView("tiny", "s", 100, 6, "Open", "member left", "a", ended_ms=140, left=("a",))
WIRE_OF_CLASSIC = ["g", 100, 6, "member left", "m-2", "c", "/h", 130, 140, 2, [], ["m-2"], [], [], {}, []]


def test_classic_groups_travel_as_they_did_when_there_was_no_other_type() -> None:
    told = relay.PAYLOADS.encode(Rebalances((CLASSIC,), 0, (Rebalancing(CLASSIC, ("m-1",), 1, 500),)))
    assert msgpack.unpackb(told) == [25, [WIRE_OF_CLASSIC], 0, [[WIRE_OF_CLASSIC, ["m-1"], 1, 500]]]
    status = ClassicStatus(7, ("m-1",), 250, (RebalanceEvent(1, 6, "r", "m"),), "Stable", 2)
    described: list[Any] = msgpack.unpackb(relay.PAYLOADS.encode(status))
    assert described[:5] == [21, 7, ["m-1"], 250, [[1, 6, "r", "m"]]]
    seen: list[Any] = msgpack.unpackb(control.CODEC.encode(GroupSeen.of(status)))
    assert seen[:2] == [212, [7, ["m-1"], 250, [[1, 6, "r", "m"]], "Stable", 2]]


@pytest.mark.parametrize("told", [CLASSIC, TINY])
def test_a_rebalance_of_any_type_arrives_wherever_rebalances_are_told(told: RebalanceView) -> None:
    over = Rebalances((told, CLASSIC), 0, (Rebalancing(told, (), 0, None),))
    assert relay.PAYLOADS.read(Rebalances, relay.PAYLOADS.encode(over)) == over
    history = GroupHistory(told.group_id, (), (told,))
    assert control.CODEC.read(GroupHistory, control.CODEC.encode(history)) == history
    happened = Happenings(1, 1, 1, rebalances=(NumberedRebalance(1, told),))
    assert happened.rebalances[0].rebalance.group_type == ("tiny" if told is TINY else "classic")


def test_how_a_group_of_a_type_without_classes_of_its_own_stands_arrives() -> None:
    status = PlainStatus("tiny", "Open", 4, 2, ("a",), 300, (RebalanceEvent(1, 3, "member entered", "a"),))
    assert relay.PAYLOADS.read(PlainStatus, relay.PAYLOADS.encode(status)) == status
    seen = GroupSeen.of(status)
    assert control.CODEC.read(GroupSeen, control.CODEC.encode(seen)).status == status
    assert (seen.classic, GroupSeen.of(None).status) == (None, None)


@dataclass(frozen=True, slots=True)
class TinyStatus(PlainStatus):
    """A status with a field that only tiny groups have."""

    youngest: str = ""


@dataclass(frozen=True, slots=True)
class TinyRebalanceView(PlainRebalanceView):
    patience_ms: int = 0


def test_a_type_that_tells_more_adds_its_classes_to_the_table_and_nothing_else() -> None:
    known: dict[int, Any] = {1: Rebalances, **GROUP_CLASSES, 900: TinyStatus, 901: TinyRebalanceView}
    codec: Codec[Any] = Codec("test", known, without_tag=WITHOUT_TAG)
    status = TinyStatus("tiny", "Open", 4, 2, youngest="b")
    assert codec.read(PlainStatus, codec.encode(status)) == status
    view = TinyRebalanceView(
        "tiny", "s", 1, 2, "Open", "why", "a", waited=(Waited("a", "rebalance", 3),), patience_ms=9
    )
    over = Rebalances((view, CLASSIC, TINY), 0, ())
    assert codec.read(Rebalances, codec.encode(over)) == over


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([WIRE_OF_CLASSIC[:4]], "ClassicRebalanceView"),
        ([["g", "then", *WIRE_OF_CLASSIC[2:]]], r"ClassicRebalanceView\.began_ms: 'then' is no int"),
        ([[]], "ClassicRebalanceView is an array of 16"),
        ([[9_999, "g"]], "unknown tag 9999"),
        ([[300, "tiny", "Open", 4, 2, [], None, []]], "PlainStatus is no RebalanceView"),
    ],
)
def test_what_is_no_rebalance_is_refused_by_name(rows: list[Any], why: str) -> None:
    with pytest.raises(LinkError, match=rf"^relay link: Rebalances\.over: {why}"):
        relay.PAYLOADS.decode(msgpack.packb([25, rows, 0, []]))
