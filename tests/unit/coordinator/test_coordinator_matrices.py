"""The whole tables: what each kind of member is told in each state, and which transitions are legal.

Kinds as in the tables: U without a member id, P pending, K known, X a stranger, S+ an instance id that is
known but another's, S0 an instance id that is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.states import TRANSITIONS, GroupState
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.group import IllegalTransitionError
from actors.coordinator.turn import Now
from tests.support.coordination import (
    Client,
    Driver,
    stable_group,
    subscription,
)

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)
PARKED = "parked"
WRONG_GENERATION = 77


class Scene:
    """A group g in a given state: a leads, b follows, s is static under i, p is pending (gone when Dead)."""

    def __init__(self, state: str) -> None:
        self.driver = Driver()
        self.a = Client(self.driver, "a")
        self.b = Client(self.driver, "b")
        self.s = Client(self.driver, "s", instance="i")
        self.members = [self.a, self.b, self.s]
        if state == EMPTY:
            # The members' ids are those of a group that has emptied.
            stable_group(self.driver, *self.members)
            self.driver.leave("g", *((m.member_id, None) for m in self.members))
        elif state == DEAD:
            self.driver.commit_offset("g", 1)
        else:
            stable_group(self.driver, *self.members)
        self.pending = ""
        if state == PREPARING:
            self.driver.leave("g", ("", "i"))
            self.s.member_id = ""
            self.s.ask_join()
            self.s.member_id = self.driver.group().roster.by_instance["i"]
        elif state == COMPLETING:
            for member in self.members:
                member.ask_join()
            for member in self.members:
                member.joined()
        if state != DEAD:
            self.pending = self.driver.answer(Client(self.driver, "p").ask_join()).member_id
        else:
            self.driver.holds = True
            self.driver.delete_group("g")
        self.generation = self.driver.group().generation_id
        for member in self.members:
            member.generation = self.generation
        assert self.driver.state() == state

    def identity(self, kind: str) -> tuple[str, str | None]:
        """(member id, instance id) of a request of that kind."""
        known = self.b.member_id or "b"
        return {
            "X": ("stranger", None),
            "P": (self.pending or "pending", None),
            "S0": ("stranger", "unknown"),
            "S+": ("stranger", "i"),
            "K": (known, None),
            "S=": (self.s.member_id or "s", "i"),
            "leader": (self.a.member_id or "a", None),
        }[kind]


def outcome(answer: Any) -> Any:
    return PARKED if answer is None else answer.error_code


def table(rows: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(kind.partition(" ")[0], kind.partition(" ")[2], state, want, id=f"{kind}-{state}")
        for kind, wants in rows.items()
        for state, want in zip(STATES, wants, strict=True)
    ]


# Rows that come again: whom the group does not know, who has another's instance id, and who goes on undisturbed.
STRANGE = [25, 25, 25, 25, 15]
FENCED = [25, 82, 82, 82, 15]
KNOWN = [25, 0, 0, 0, 15]


def strangers(*kinds: str) -> dict[str, list[Any]]:
    return dict.fromkeys(kinds, STRANGE)


HEARTBEAT = strangers("X", "P", "S0") | {
    "S+": FENCED,
    "K wrong": [25, 22, 22, 22, 15],
    "K": [25, 27, 0, 0, 15],
    "S=": [25, 27, 0, 0, 15],
}


@pytest.mark.parametrize(("kind", "how", "state", "want"), table(HEARTBEAT))
def test_heartbeat(kind: str, how: str, state: str, want: int) -> None:
    scene = Scene(state)
    client = Client(scene.driver)
    client.member_id, client.instance = scene.identity(kind)
    assert client.heartbeat(WRONG_GENERATION if how else scene.generation) == want


SYNC = strangers("X", "P", "S0") | {
    "S+": FENCED,
    "K generation": [25, 22, 22, 22, 15],
    "K protocol": [25, 23, 23, 23, 15],
    "K type": [25, 23, 23, 23, 15],
    "K": [25, 27, PARKED, 0, 15],
    "S=": [25, 27, PARKED, 0, 15],
    "leader": [25, 27, 0, 0, 15],
}
SYNC_CHANGES = {
    "generation": {"generation_id": WRONG_GENERATION},
    "protocol": {"protocol_name": "other"},
    "type": {"protocol_type": "other"},
    "": {},
}


@pytest.mark.conformance("B-57", "B-58", "B-59")
@pytest.mark.parametrize(("kind", "how", "state", "want"), table(SYNC))
def test_sync(kind: str, how: str, state: str, want: Any) -> None:
    scene = Scene(state)
    client = Client(scene.driver, "n")
    client.member_id, client.instance = scene.identity(kind)
    client.generation = scene.generation
    client.ask_sync({client.member_id: b"n"}, **SYNC_CHANGES[how])
    assert outcome(client.sync_answer) == want
    if want == 0:
        assert scene.driver.state() == STABLE
        stored = {"K": b"b", "S=": b"s", "leader": b"a"}[kind] if state == STABLE else b"n"
        assert client.synced() == stored


NOBODYS = [0, 25, 25, 25, 15]
COMMIT = strangers("X", "P", "S0") | {
    "S+": FENCED,
    **dict.fromkeys(("none", "X free", "S0 free"), NOBODYS),
    "S+ free": [0, 82, 82, 82, 15],
    "K free": [0, 22, 22, 22, 15],
    "K wrong": [25, 22, 22, 22, 15],
    "K": [25, 0, 27, 0, 15],
    "S=": [25, 0, 27, 0, 15],
}


@pytest.mark.conformance("C-03", "C-04", "C-05", "C-06", "C-07")
@pytest.mark.parametrize(("kind", "how", "state", "want"), table(COMMIT))
def test_offset_commit(kind: str, how: str, state: str, want: int) -> None:
    scene = Scene(state)
    member_id, instance = ("", None) if kind == "none" else scene.identity(kind)
    generation = {"free": -1, "wrong": WRONG_GENERATION, "": -1 if kind == "none" else scene.generation}[how]
    token = scene.driver.commit_offset("g", 9, generation=generation, member_id=member_id, instance=instance)
    assert scene.driver.answer(token).error_codes == [want]


LEAVE = strangers("none", "X", "S0") | {"S+": FENCED, "P": [0, 0, 0, 0, 15]}
LEAVE |= dict.fromkeys(("byinstance", "K", "S="), KNOWN)


@pytest.mark.conformance("B-70", "B-73", "B-77")
@pytest.mark.parametrize(("kind", "how", "state", "want"), table(LEAVE))
def test_leave(kind: str, how: str, state: str, want: int) -> None:
    scene = Scene(state)
    special = {"none": ("", None), "byinstance": ("", "i")}
    entry = special.get(kind) or scene.identity(kind)
    response = scene.driver.leave("g", entry)
    if state == DEAD:
        assert (response.error_code, response.members) == (15, ())
    else:
        assert [(m.member_id, m.group_instance_id, m.error_code) for m in response.members] == [(*entry, want)]


ADD = [0, PARKED, PARKED, PARKED, 15]
JOIN = strangers("X", "S0") | {
    "U v4": [79, 79, 79, 79, 15],
    "U v3": ADD,
    "P": ADD,
    "P static": [-1, -1, -1, -1, 15],
    "new static": ADD,
    "replace static": [None, PARKED, PARKED, 0, 15],
    "K same": [25, PARKED, 0, 0, 15],
    "leader same": [25, PARKED, 0, PARKED, 15],
    "K changed": [25, PARKED, PARKED, PARKED, 15],
    "S= same": [25, PARKED, 0, 0, 15],
    "S+": [82, 82, 82, 82, 15],
}


@pytest.mark.conformance("B-27", "B-34", "B-90")
@pytest.mark.parametrize(("kind", "how", "state", "want"), table(JOIN))
def test_join(kind: str, how: str, state: str, want: Any) -> None:
    if want is None or (kind, state) == ("S+", EMPTY):
        want = 0 if want is None else 25  # an Empty group has no instance ids: 82 cannot be
        kind, how = ("new", "static") if kind == "replace" else (kind, how)
    scene = Scene(state)
    client = Client(scene.driver, "n")
    if kind in ("U", "new", "replace"):
        client.version = 3 if how == "v3" else 9
        client.instance = {"new": "fresh", "replace": "i"}.get(kind)
    else:
        client.member_id, client.instance = scene.identity(kind)
        client.instance = "i" if how == "static" else client.instance
    if how == "changed":
        client.protocols = (("range", subscription("other")),)
    if state == EMPTY and (kind, want) in (("P", 0), ("U", 0), ("new", 0)) and kind != "P":
        scene.driver.leave("g", (scene.pending, None))
    client.ask_join()
    assert outcome(client.join_answer) == want
    if want == PARKED:
        assert scene.driver.state() == PREPARING
    elif state not in (DEAD, EMPTY):
        assert scene.driver.state() == state


@pytest.mark.conformance("B-42", "B-44")
@pytest.mark.parametrize(
    ("state", "kind", "want"),
    [
        (PREPARING, "P", 81),
        (COMPLETING, "P", 81),
        (COMPLETING, "K", 0),
        (STABLE, "P", 81),
        (STABLE, "K", 0),
        (PREPARING, "leader", 81),
    ],
)
def test_a_full_group(state: str, kind: str, want: int) -> None:
    scene = Scene(state)
    full = 3 if state != PREPARING else 1
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=full)
    scene.driver.shard.coordinator.runtime.config = config
    client = Client(scene.driver, "n")
    client.member_id, client.instance = scene.identity(kind)
    answer = scene.driver.answer(client.ask_join())
    assert answer.error_code == want
    if want == 81:
        assert answer.member_id == ""
        assert client.member_id not in {*scene.driver.group().members, *scene.driver.group().pending_joins}


LEGAL = {
    (EMPTY, PREPARING),
    (EMPTY, DEAD),
    (PREPARING, COMPLETING),
    (PREPARING, EMPTY),
    (COMPLETING, STABLE),
    (COMPLETING, PREPARING),
    (STABLE, PREPARING),
}
ENTER: dict[str, Callable[[ClassicGroup], None]] = {
    EMPTY: lambda group: group.become_empty(2),
    PREPARING: lambda group: group.begin_rebalance("a reason", "m", Now(2, 2), 3_000),
    COMPLETING: lambda group: group.begin_generation(2),
    STABLE: lambda group: group.complete_assignment({}, 2),
    DEAD: lambda group: group.begin_deletion(),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATES, STATES)))
def test_transitions(before: str, after: str) -> None:
    group = ClassicGroup("g", 1)
    group.state = GroupState(before)
    group.pending_sync.add("m")
    as_it_was = {name: copy(value) for name, value in vars(group).items()}
    if (before, after) in LEGAL:
        ENTER[after](group)
        assert group.state == after
        assert group.state_timestamp_ms == (1 if after == DEAD else 2)
        assert (group.initial_delay is not None) == ((before, after) == (EMPTY, PREPARING))
        assert group.generation_id == (before == PREPARING)
    else:
        with pytest.raises(IllegalTransitionError, match=f"{before} to {after}"):
            ENTER[after](group)
        for name in ("state", "state_timestamp_ms", "generation_id", "pending_sync", "history", "initial_delay"):
            assert getattr(group, name) == as_it_was[name]


def test_every_state_has_its_row() -> None:
    assert set(TRANSITIONS) == set(GroupState)
