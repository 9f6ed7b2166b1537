"""A pool tells the clusters on its Ray the figures of its members. No Ray is started."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from actors.links.pools import MemberFigures, PoolFigures
from actors.members.pools.figures import Clusters, FigureReports

FIGURES = PoolFigures("p", "g", (MemberFigures("p-0", 1, 0, 0, 5, 0),))


@dataclass
class FakeRay:
    """The named actors of a Ray, and the figures that its controllers were told."""

    actors: list[dict[str, str]]
    looks: int = 0
    told: list[tuple[str, PoolFigures]] = field(default_factory=list)

    def list_named_actors(self, *, all_namespaces: bool) -> list[dict[str, str]]:
        assert all_namespaces
        self.looks += 1
        return self.actors

    def get_actor(self, name: str, namespace: str) -> Any:
        def remote(figures: PoolFigures) -> None:
            self.told.append((f"{namespace}/{name}", figures))

        return SimpleNamespace(tell_of_pool=SimpleNamespace(remote=remote))


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    names = (("coterie-a", "controller"), ("coterie-a", "broker-0"), ("coterie-b", "controller"), ("x", "controller"))
    fake = FakeRay([{"namespace": namespace, "name": name} for namespace, name in names])
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_actor", fake.get_actor)
    monkeypatch.setattr(ray.util, "list_named_actors", fake.list_named_actors)
    return fake


def test_every_cluster_is_told_and_they_are_looked_for_once_a_minute(there: FakeRay) -> None:
    now = 0.0
    clusters = Clusters(lambda: now)
    clusters.report(FIGURES)
    now = 59.0
    clusters.report(FIGURES)
    assert there.looks == 1
    assert there.told == [("coterie-a/controller", FIGURES), ("coterie-b/controller", FIGURES)] * 2
    there.actors = []
    now = 61.0
    clusters.report(FIGURES)
    assert (there.looks, len(there.told)) == (2, 4)


def test_without_a_ray_none_is_started_for_it(there: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    Clusters(lambda: 0.0).report(FIGURES)
    assert (there.looks, there.told) == (0, [])


def test_it_goes_on_after_an_error_and_ends_when_it_is_to() -> None:
    told: list[PoolFigures] = []
    twice = threading.Event()

    def tell(figures: PoolFigures) -> None:
        told.append(figures)
        if len(told) == 1:
            raise ConnectionError("Ray is busy")
        twice.set()

    reports = FigureReports("p", "g", lambda: FIGURES.members, tell, interval_s=0.0)
    reports.start()
    assert twice.wait(30)
    reports.end()
    assert set(told) == {FIGURES}
