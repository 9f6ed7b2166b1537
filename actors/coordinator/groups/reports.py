"""A shard's reports on groups for people: how one stands, and its rebalances. Times are wall times in ms.

All types tell what `GroupStatus` and `RebalanceView` have. A type that knows more has classes of its own, which add to
`PlainStatus` and `PlainRebalanceView`; one that does not uses these. (Those of classic groups are older, and do not.)
They go over links as they are: `actors.links.group_status` has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

WAITED_MAX: Final = 5
"""The most members that are named of those that were waited for."""
GENERATION: Final = "generation"
EPOCH: Final = "epoch"
WHOLE: Final = "rebalance"
"""The phase of a rebalance that has no phases."""


@dataclass(frozen=True, slots=True)
class Waited:
    """A member that a phase of a rebalance waited for, and the time for which it did."""

    member_id: str
    phase: str
    """Its name, as `RebalanceView.phases` has it."""
    ms: int
    client_id: str = ""
    host: str = ""


class Phase(NamedTuple):
    """A part of a rebalance that has begun. `until_ms` is None if it runs, or was broken off."""

    name: str
    since_ms: int
    until_ms: int | None


class RebalanceView:
    """A rebalance, of whatever type of group, from what caused it until all members had their assignments."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of the dataclasses below and in rooms of types

        @property
        def group_type(self) -> str:
            """Kafka's name of the type, in lower case."""

        @property
        def group_id(self) -> str: ...

        @property
        def began_ms(self) -> int: ...

        @property
        def epoch(self) -> int:
            """The number of what ended: a classic group's generation, another one's epoch."""

        @property
        def state(self) -> str:
            """The group's state while the present phase runs, or when the rebalance was broken off."""

        @property
        def reason(self) -> str: ...

        @property
        def member_id(self) -> str:
            """The member that caused it."""

        @property
        def client_id(self) -> str: ...

        @property
        def host(self) -> str: ...

        @property
        def ended_ms(self) -> int | None:
            """The time at which the assignment was safe and members could have it."""

        @property
        def members(self) -> int:
            """After it."""

        @property
        def came(self) -> tuple[str, ...]: ...

        @property
        def left(self) -> tuple[str, ...]: ...

        @property
        def expelled(self) -> tuple[str, ...]:
            """Members whose sessions ended, or who did not come in time."""

        @property
        def waited(self) -> tuple[Waited, ...]:
            """The longest first, at most WAITED_MAX."""

        @property
        def processes(self) -> Mapping[str, str]:
            """The descriptions that members that came have given of their processes, by member id."""

        @property
        def replaced(self) -> tuple[str, ...]:
            """Static members whose next incarnations came, under other ids: they did not leave."""

    @property
    def epoch_name(self) -> str:
        """The type's name for the number of what ended."""
        return EPOCH

    @property
    def phase_names(self) -> tuple[str, ...]:
        """The names of all phases that such a rebalance has, in order."""
        return (WHOLE,)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Its phases as far as they have begun, in order. The first one begins with it."""
        return (Phase(WHOLE, self.began_ms, self.ended_ms),)

    def without_processes(self) -> RebalanceView:
        """The same for those who may not know where members run."""
        made: RebalanceView = replace(cast("Any", self), processes={})
        return made


@dataclass(frozen=True, slots=True)
class PlainRebalanceView(RebalanceView):
    """The fields of a rebalance that all types tell."""

    group_type: str
    group_id: str
    began_ms: int
    epoch: int
    state: str
    reason: str
    member_id: str
    client_id: str = ""
    host: str = ""
    ended_ms: int | None = None
    members: int = 0
    came: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    expelled: tuple[str, ...] = ()
    waited: tuple[Waited, ...] = ()
    processes: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebalanceEvent:
    """The reason why a rebalance began, and the member that caused it."""

    wall_ms: int
    epoch: int
    """The number of what ended: a classic group's generation, another one's epoch."""
    reason: str
    member_id: str


class GroupStatus:
    """The facts that tell an operator why a group, of whatever type, makes no progress."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def group_type(self) -> str:
            """Kafka's name of the type, in lower case."""

        @property
        def state(self) -> str:
            """Kafka's name of its state; empty where an older build does not say."""

        @property
        def epoch(self) -> int:
            """A classic group's generation, another one's epoch."""

        @property
        def members(self) -> int | None:
            """The number of its members; None where an older build does not say."""

        @property
        def awaited_members(self) -> tuple[str, ...]:
            """The members that it waits for at present, before it can go on."""

        @property
        def phase_ends_in_ms(self) -> int | None:
            """The time after which it goes on without them at the latest; None if it waits for nobody."""

        @property
        def rebalances(self) -> tuple[RebalanceEvent, ...]:
            """The last rebalances that this shard has seen, oldest first."""

    @property
    def epoch_name(self) -> str:
        """The type's name for its epoch."""
        return EPOCH


@dataclass(frozen=True, slots=True)
class PlainStatus(GroupStatus):
    """The fields of a group's status that all types tell."""

    group_type: str
    state: str
    epoch: int
    members: int | None
    awaited_members: tuple[str, ...] = ()
    phase_ends_in_ms: int | None = None
    rebalances: tuple[RebalanceEvent, ...] = ()
