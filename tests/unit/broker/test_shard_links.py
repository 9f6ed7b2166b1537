"""The states of a shard process: which moves there are, and that no others happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.connections.connection import Connection
from actors.broker.coordinators.link import LinkState, LinkStateError, Question, ShardLink
from actors.coordinator_kinds.groups import GROUPS

MOVES: dict[LinkState, Callable[[ShardLink], Any]] = {
    LinkState.SPARE: lambda link: link.greet(7),
    LinkState.LOADING: lambda link: link.assign(GROUPS, 1, 5, {}),
    LinkState.ACTIVE: lambda link: link.rouse() if link.active else link.activate(),
    LinkState.DROWSY: lambda link: link.doze(3),
    LinkState.RESIGNED: lambda link: link.leave(LinkState.RESIGNED),
    LinkState.GONE: lambda link: link.leave(LinkState.GONE),
}
ALLOWED = {
    LinkState.CONNECTED: {LinkState.SPARE, LinkState.GONE},
    LinkState.SPARE: {LinkState.LOADING, LinkState.GONE},
    LinkState.LOADING: {LinkState.ACTIVE, LinkState.RESIGNED, LinkState.GONE},
    LinkState.ACTIVE: {LinkState.DROWSY, LinkState.RESIGNED, LinkState.GONE},
    LinkState.DROWSY: {LinkState.ACTIVE, LinkState.RESIGNED, LinkState.GONE},
    LinkState.RESIGNED: {LinkState.SPARE, LinkState.GONE},
    LinkState.GONE: set(),
}
WAYS: dict[LinkState, tuple[LinkState, ...]] = {
    LinkState.CONNECTED: (),
    LinkState.SPARE: (LinkState.SPARE,),
    LinkState.LOADING: (LinkState.SPARE, LinkState.LOADING),
    LinkState.ACTIVE: (LinkState.SPARE, LinkState.LOADING, LinkState.ACTIVE),
    LinkState.DROWSY: (LinkState.SPARE, LinkState.LOADING, LinkState.ACTIVE, LinkState.DROWSY),
    LinkState.RESIGNED: (LinkState.SPARE, LinkState.LOADING, LinkState.RESIGNED),
    LinkState.GONE: (LinkState.GONE,),
}


def link_in(state: LinkState) -> ShardLink:
    protocol: Any = None
    link = ShardLink(protocol, {})
    for step in WAYS[state]:
        MOVES[step](link)
    assert link.state is state
    return link


@pytest.mark.parametrize("state", LinkState)
def test_a_link_goes_where_the_table_says_and_nowhere_else(state: LinkState) -> None:
    for target, move in MOVES.items():
        link = link_in(state)
        if target in ALLOWED[state]:
            move(link)
            assert link.state is target
        else:
            with pytest.raises(LinkStateError, match="cannot become"):
                move(link)
            assert link.state is state


@pytest.mark.parametrize("end", [LinkState.RESIGNED, LinkState.GONE])
def test_a_link_that_leaves_its_partition_gives_back_what_it_owed(end: LinkState) -> None:
    link = link_in(LinkState.ACTIVE)
    question = Question("Heartbeat", lambda frame: None)
    link.pending[4] = (question, b"frame")
    server: Any = None
    link.opened[9] = Connection(server, 9, 0.0)
    assert link.leave(end) == {4: (question, b"frame")}
    assert (link.partition, link.epoch, link.pending, link.opened) == (-1, -1, {}, {})
