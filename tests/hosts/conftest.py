"""Hosts for the folder, and a Ray of three of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.host import Host
from tests.hosts.hosts import Hosts
from tests.hosts.space import why_not


@pytest.fixture(scope="package")
def hosts() -> Iterator[Hosts]:
    """No host yet: add them."""
    if why := why_not():
        pytest.skip(why)
    with Hosts() as made:
        yield made


@pytest.fixture(scope="package")
def three(hosts: Hosts) -> list[Host]:
    """Three hosts with a Ray, the first with its head. A test that takes one away brings it back."""
    head, *others = made = [hosts.add() for _ in range(3)]
    head.start_ray()
    for host in others:  # one at a time: Ray ends a node whose agents are not there after 15 s
        host.start_ray(head)
    return made
