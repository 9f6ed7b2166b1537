"""A supervisor's world without Ray and brokers: the topic is in memory, members are sockets. Holds no tests."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from ray import cloudpickle

from actors.links.member import MemberAddress, MemberReport
from actors.links.member_deaths import InHand
from actors.members.deployment.description import PoolDescription, PoolState
from actors.members.deployment.records import Deployment
from actors.members.deployment.steward import Here, Steward
from actors.members.member_link import MemberServer
from actors.members.pools.consumer_actor import ActorStarter
from actors.members.pools.handler_member import READY, MemberSpec
from actors.members.pools.members import PoolMembers
from tests.support.pools_topic import MemoryTopic

SECRET = b"s" * 16
NAME = "p"


class Member:
    """A member that listens in this process. The first of its `handler_args` says how it is."""

    def __init__(self, spec: MemberSpec, world: World) -> None:
        self.how: str = spec.handler_args[0]
        self.instance_id: str = spec.options["group_instance_id"]
        self.ended = threading.Event()
        self.notes = spec.notes
        self._killed = False
        self._world = world
        world.members.append(self)
        self._served = self._ready = False
        self._server = MemberServer(
            *("127.0.0.1", SECRET, self, self.report, self.ended.set),
            lost=lambda: world.lost.append(self.instance_id),
            join=self._begin,
        )

    def report(self) -> MemberReport:
        if self._killed:
            sys.exit()  # so the connection ends
        if not self._served:
            return MemberReport(READY if self._ready else "Starting")
        if self.how == "letters":
            return MemberReport("Stopped" if self.ended.is_set() else "Running", dead_letters=20)
        if self.how == "bad":
            return MemberReport("Failed", "it is bad")
        if self.ended.is_set():
            return MemberReport("Stopped", handled=1)
        return MemberReport("Running", handled=1)

    def address(self, timeout_s: float) -> MemberAddress | None:
        return MemberAddress("127.0.0.1", self._server.port, 1, "node", SECRET)

    def is_placed(self) -> bool:
        return True

    def serve(self, *, wait: bool = False) -> None:
        if wait:
            self._ready = True
            self._world.beside.append(f"{self.instance_id}:{self.how}")
        else:
            self._begin()

    def _begin(self) -> None:
        self._served = True
        self._world.begun.append(f"{self.instance_id}:{self.how}")

    def kill(self) -> None:
        self._killed = True

    def die(self, said: InHand) -> None:
        self._server.say(said)
        self._killed = True

    def how_it_died(self, timeout_s: float) -> str | None:
        return "it was gone"


class World:
    """Records the members that began, those set up beside a predecessor, and those removed from the group."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.beside: list[str] = []
        self.members: list[Member] = []
        self.lost: list[str] = []
        self.removed: list[str] = []
        self.topic = MemoryTopic()
        self.superseded = threading.Event()
        self.stewards: list[Steward] = []
        self.threads: list[threading.Thread] = []

    def start(
        self,
        actor_id: str = "actor",
        *,
        restarted: bool = False,
        after: str = "",
        seals: Any = None,
    ) -> Steward:
        topic: Any = self.topic
        made = Steward(NAME, "h:1", topic, Here(1, "node", actor_id, restarted, after), self.superseded.set, seals)
        self.stewards.append(made)
        self.threads.append(threading.Thread(target=made.run, daemon=True))
        self.threads[-1].start()
        return made

    def end(self) -> None:
        for steward in self.stewards:
            steward.close(10)
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(ActorStarter, "start", lambda _, spec: Member(spec, made))
    monkeypatch.setattr(PoolMembers, "remove_members", lambda _, ids, why: made.removed.extend(ids))
    monkeypatch.setattr(PoolMembers, "remove_strangers", lambda _, size: None)
    yield made
    made.end()


class Handle:
    """A handler that is as it is told."""

    def __init__(self, how: str) -> None: ...

    def __call__(self, _: object) -> None: ...


def version(number: int, how: str = "good", size: int = 2, **more: Any) -> Deployment:
    arguments = {"topics": "t", "group_id": "g", "handler": Handle, "size": size, "handler_args": (how,)}
    made = Deployment(
        incarnation="one",
        id=f"id{number}",
        version=number,
        deployed_at_ms=number,
        group_id="g",
        topics=("t",),
        size=size,
        autoscale=None,
        bootstrap_servers="h:1",
        settings={},
        at_home=True,
        python="3.11",
        body=cloudpickle.dumps(arguments),
    )
    return replace(made, **more)


def until(steward: Steward, condition: Callable[[PoolDescription], bool]) -> PoolDescription:
    """The first description for which the condition holds."""
    for _ in range(1200):
        found = steward.describe()
        if found is not None and condition(found):
            return found
        threading.Event().wait(0.05)
    raise AssertionError(steward.describe())


def settled(found: PoolDescription) -> bool:
    return found.state is PoolState.RUNNING and found.rollout is not None and found.rollout.over
