"""A group of the classic protocol as simple as can be said: dynamic members, no timer but the initial delay's.

The yardstick for `tests.support.serial_order`: one request is handled at a time; joins and syncs are parked until the
group answers them, commits and assignments until they are in the log. Ids that the server makes up are read off its
answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

OK, ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, ID_REQUIRED = 0, 22, 25, 27, 79
NOTHING = -1
"""The offset that is fetched where nothing was committed."""

Step = tuple["Group", dict[int, Any]]


@dataclass(slots=True)
class Request:
    """One request of a client and its answer; which fields count depends on the kind.

    Answers: (error, generation, leader, member id, members with metadata) of a join, of which an error has only its
    code, and with 79 the id; (error, assignment) of a sync; offsets of a fetch; else the error.
    """

    kind: str
    member: str = ""
    generation: int = -1
    metadata: bytes = b""
    assignments: frozenset[tuple[str, bytes]] = frozenset()
    partition: int = 0
    offset: int = 0
    invoked: int = 0
    answered: int = 0
    answer: Any = None

    @property
    def code(self) -> int:
        """The error of its answer."""
        if self.kind == "fetch":
            return OK
        return int(self.answer[0] if isinstance(self.answer, tuple) else self.answer)


class Group(NamedTuple):
    """`leader` "" stands for any member; `joins` and `syncs` are parked: (member, request).

    `commits` were taken and are not safe yet; `proposed` is the leader's assignment, safe when all of them are.
    """

    phase: str = "Empty"
    initial: bool = False
    generation: int = 0
    leader: str = ""
    members: frozenset[tuple[str, bytes]] = frozenset()
    pending: frozenset[str] = frozenset()
    joins: frozenset[tuple[str, int]] = frozenset()
    syncs: frozenset[tuple[str, int]] = frozenset()
    assignment: frozenset[tuple[str, bytes]] = frozenset()
    offsets: tuple[int, ...] = ()
    commits: frozenset[int] = frozenset()
    proposed: frozenset[tuple[str, bytes]] | None = None

    @property
    def ids(self) -> set[str]:
        return {member for member, _ in self.members}


class GroupModel:
    """See `tests.support.serial_order.Model`. The group exists and has no members at the start."""

    def __init__(self, requests: Sequence[Request], partitions: int) -> None:
        self.requests = requests
        self.start = Group(offsets=(NOTHING,) * partitions)

    def parked(self, group: Group) -> Iterable[int]:
        yield from (number for _, number in group.joins | group.syncs)
        yield from group.commits

    def by_itself(self, group: Group, open_now: Sequence[int], horizon: int) -> Iterator[Step]:
        watched = group.proposed is not None or any(self.requests[number].kind == "fetch" for number in open_now)
        commits = sorted(group.commits, key=lambda each: self.requests[each].answered)
        if watched or (commits and self.requests[commits[0]].answered == horizon):  # else nobody can tell yet
            for number in commits:
                yield self._safe(group, number)
        if group.proposed is not None and not group.commits:
            yield self._assigned(group, group.proposed)
        if group.initial:
            yield from self._complete(group, {})

    def may_come_early(self, number: int) -> bool:
        """A commit of a generation that was taken: it takes effect before the next assignment in any case."""
        request = self.requests[number]
        return request.kind == "commit" and request.answer == OK and request.generation >= 0

    def handle(self, group: Group, number: int) -> Iterable[Step]:
        request = self.requests[number]
        found: Iterable[Step] = getattr(self, f"_{request.kind}")(group, number, request)
        return found

    # --- requests of members --------------------------------------------------------------------------------------

    def _join(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        if not request.member:
            made = request.answer[1] if request.answer[0] == ID_REQUIRED else "an id of its own"
            return [(group._replace(pending=group.pending | {made}), {number: (ID_REQUIRED, made)})]
        if request.member in group.pending:
            group = group._replace(pending=group.pending - {request.member})
            return self._add(group, number, request)
        metadata = dict(group.members).get(request.member)
        if metadata is None:
            return [(group, {number: (UNKNOWN_MEMBER,)})]
        leads = request.member == group.leader
        if metadata == request.metadata and (group.phase == "Completing" or (group.phase == "Stable" and not leads)):
            return [(group, {number: _joined(group, request.member)})]
        return self._add(group, number, request)

    def _add(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        members = frozenset({**dict(group.members), request.member: request.metadata}.items())
        group = group._replace(members=members)
        answers: dict[int, Any] = {}
        if group.phase == "Empty":
            group = group._replace(phase="Preparing", initial=True, leader="")
        else:
            group, answers = _prepare(group)
        return self._perhaps_complete(group._replace(joins=group.joins | {(request.member, number)}), answers)

    def _sync(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        error = UNKNOWN_MEMBER if group.phase == "Empty" else _member_error(group, request)
        if error:
            return [(group, {number: (error, b"")})]
        if group.phase == "Preparing":
            return [(group, {number: (REBALANCING, b"")})]
        if group.phase == "Stable":
            return [(group, {number: (OK, dict(group.assignment)[request.member])})]
        if request.member == group.leader:
            given = {**dict.fromkeys(group.ids, b""), **dict(request.assignments)}
            known = frozenset((member, share) for member, share in given.items() if member in group.ids)
            group = group._replace(proposed=known)
        return [(group._replace(syncs=group.syncs | {(request.member, number)}), {})]

    def _heartbeat(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        error = UNKNOWN_MEMBER if group.phase == "Empty" else _member_error(group, request)
        return [(group, {number: error or (REBALANCING if group.phase == "Preparing" else OK)})]

    def _leave(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        """By the member itself or by an administrator. As in Kafka even an id that was only given out rebalances."""
        member = request.member
        if member not in group.ids | group.pending:
            return [(group, {number: UNKNOWN_MEMBER})]
        answers: dict[int, Any] = {number: OK}
        answers |= {parked: (UNKNOWN_MEMBER,) for who, parked in group.joins if who == member}
        answers |= {parked: (UNKNOWN_MEMBER, b"") for who, parked in group.syncs if who == member}
        group = group._replace(
            members=frozenset(each for each in group.members if each[0] != member),
            joins=frozenset(each for each in group.joins if each[0] != member),
            syncs=frozenset(each for each in group.syncs if each[0] != member),
            pending=group.pending - {member},
            leader="" if group.leader == member else group.leader,
        )
        group, more = _prepare(group)
        return self._perhaps_complete(group, answers | more)

    # --- offsets --------------------------------------------------------------------------------------------------

    def _commit(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        if request.generation < 0 and group.phase == "Empty":
            error = OK
        elif request.generation < 0 and not request.member:
            error = UNKNOWN_MEMBER
        else:
            error = _member_error(group, request) or (REBALANCING if group.phase == "Completing" else OK)
        return [(group, {number: error})] if error else [self._written(group, number, request)]

    def _written(self, group: Group, number: int, request: Request) -> Step:
        return group._replace(commits=group.commits | {number}), {}

    def _fetch(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        return [(group, {number: group.offsets})]

    # --- steps without a request ----------------------------------------------------------------------------------

    def _safe(self, group: Group, number: int) -> Step:
        """A commit takes effect. Those that were taken at the same time do so in any order."""
        request = self.requests[number]
        offsets = [*group.offsets]
        offsets[request.partition] = request.offset
        return group._replace(offsets=tuple(offsets), commits=group.commits - {number}), {number: OK}

    def _assigned(self, group: Group, proposed: frozenset[tuple[str, bytes]]) -> Step:
        share = dict(proposed)
        answers = {number: (OK, share[member]) for member, number in group.syncs}
        return group._replace(phase="Stable", assignment=proposed, proposed=None, syncs=frozenset()), answers

    def _perhaps_complete(self, group: Group, answers: Mapping[int, Any]) -> Iterable[Step]:
        all_joined = not group.pending and {member for member, _ in group.joins} == group.ids
        if group.phase == "Preparing" and not group.initial and all_joined:
            return self._complete(group, answers)
        return [(group, dict(answers))]

    def _complete(self, group: Group, answers: Mapping[int, Any]) -> Iterator[Step]:
        """The join phase is over; if the leader has not joined again, any member that has may lead."""
        joined = {member for member, _ in group.joins}
        members = frozenset(each for each in group.members if each[0] in joined)
        after = group._replace(
            phase="Completing" if members else "Empty",
            initial=False,
            generation=group.generation + 1,
            members=members,
            joins=frozenset(),
            assignment=frozenset(),
        )
        for leader in [group.leader] if group.leader in joined else sorted(joined) or [""]:
            led = after._replace(leader=leader)
            yield led, {**answers, **{number: _joined(led, member) for member, number in group.joins}}


class MembersModel(GroupModel):
    """A group without its offsets: it decides only which commits are taken."""

    def __init__(self, requests: Sequence[Request]) -> None:
        super().__init__([each for each in requests if each.kind != "fetch"], 0)

    def _written(self, group: Group, number: int, request: Request) -> Step:
        return group, {number: OK}


class OffsetsModel(GroupModel):
    """A group's offsets without its members: every commit that was taken counts."""

    def __init__(self, requests: Sequence[Request], partitions: int) -> None:
        taken = [each for each in requests if each.kind == "fetch" or (each.kind == "commit" and each.answer == OK)]
        super().__init__(taken, partitions)

    def _commit(self, group: Group, number: int, request: Request) -> Iterable[Step]:
        return [self._written(group, number, request)]


def _prepare(group: Group) -> tuple[Group, dict[int, Any]]:
    """Back to the join phase: parked syncs are sent there."""
    if group.phase not in ("Completing", "Stable"):
        return group, {}
    answers = {number: (REBALANCING, b"") for _, number in group.syncs}
    return group._replace(phase="Preparing", initial=False, syncs=frozenset(), proposed=None), answers


def _member_error(group: Group, request: Request) -> int:
    if request.member not in group.ids:
        return UNKNOWN_MEMBER
    return OK if request.generation == group.generation else ILLEGAL_GENERATION


def _joined(group: Group, member: str) -> tuple[Any, ...]:
    seen = group.members if member == group.leader else frozenset[tuple[str, bytes]]()
    return (OK, group.generation, group.leader, member, seen)
