"""Bugs planted in what lives beside logs, and in how it is elected. They are looked for in runs with guests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import actors.controller.decisions.pairs
from actors.broker.beside.seat import Seat
from actors.broker.beside.writes import Write, Writes
from actors.wire.errors import ErrorCode
from placement.together import Member

Changes = list[tuple[Any, str, Any]]

GUEST_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    GUEST_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def state_elected_elsewhere() -> Changes:
    """A state partition is elected without regard to its data partition."""
    return [(actors.controller.decisions.pairs, "led_together", lambda metadata, key: (key,))]


@bug
def elected_for_its_data_alone() -> Changes:
    """Any broker that may lead the data leads the state, too, whether it has that or not."""

    def led_by(self: Member, broker: int, alive: frozenset[int]) -> Any:
        return original(self, broker, alive | {broker})

    original = Member.led_by
    return [(Member, "may_be_led_by", lambda self, broker: True), (Member, "led_by", led_by)]


@bug
def guest_answers_before_commit() -> Changes:
    """A guest's answer leaves when its records have been appended."""
    appended = Writes.appended

    def at_once(self: Writes, writes: list[Write], next_offset: int) -> None:
        appended(self, writes, next_offset)
        for write in writes:
            write.finish(ErrorCode.NONE)

    return [(Writes, "appended", at_once)]


@bug
def guest_serves_what_may_be_lost() -> Changes:
    """A guest serves what its log has, though it has not committed under this leader."""
    begin = Seat._begin_if_committed
    return [(Seat, "_begin_if_committed", lambda self, watermark: begin(self, 1 << 60))]


@bug
def refusal_not_taken_back() -> Changes:
    """A guest believes in records that were refused."""

    def refuse(self: Seat, writes: list[Write]) -> None:
        for write in writes:
            write.finish(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    return [(Seat, "_refuse", refuse)]
