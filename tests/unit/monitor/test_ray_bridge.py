"""The figures that Ray's own exporter gets. A test with real Ray has the bridge on (tests/ray/conftest.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from actors.monitor import ray_bridge
from actors.monitor.ray_bridge import RayBridge
from tests.unit.monitor.test_views_made import group, member, picture


class Gauge:
    """Stands in for `ray.util.metrics.Gauge`, and keeps its values."""

    told: ClassVar[dict[tuple[str, str], float]] = {}

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert description.endswith(".")
        self._name, self._keys = name, set(tag_keys)

    def set(self, value: float, tags: Mapping[str, str]) -> None:
        assert self._keys == tags.keys()
        assert tags["cluster"] == "shop"
        tags["consumergroup"].encode("ascii")  # as Ray does
        self.told[self._name, tags["consumergroup"]] = value


@pytest.fixture(autouse=True)
def _gauges(monkeypatch: pytest.MonkeyPatch) -> None:
    Gauge.told.clear()
    monkeypatch.setattr(ray_bridge, "Gauge", Gauge)


def test_it_is_given_the_lag_of_each_group_and_its_members() -> None:
    RayBridge("shop").tell(picture(group("billing", member("m-0", "c", 0), member("m-1", "c", 1))))
    assert Gauge.told == {
        ("coterie_group_lag", "billing"): 6,
        ("coterie_group_lag_seconds", "billing"): 60.0,
        ("coterie_group_members", "billing"): 2,
    }


def test_what_is_not_known_is_not_given_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_bridge, "GROUPS_MAX", 2)
    given = picture(*(group(f"g{number}") for number in range(3)))
    given.memory.lags.clear()
    bridge = RayBridge("shop")
    for _ in range(2):
        bridge.tell(given)
    assert Gauge.told == {("coterie_group_members", "g0"): 0, ("coterie_group_members", "g1"): 0}


def test_a_group_whose_name_is_not_ascii_costs_no_other_one_its_figures() -> None:
    """Ray raised for it, and the figures after it were not told."""
    RayBridge("shop").tell(picture(group("caf\u00e9"), group("billing")))
    assert {name for _, name in Gauge.told} == {"caf\\xe9", "billing"}
