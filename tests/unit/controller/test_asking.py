"""A driver asks the controller by name. Where it cannot, it says why."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from actors.controller.asking import ControllerHandle
from actors.runtime.environment import REAL
from actors.runtime.ray_runtime import ClusterError


def test_a_controller_without_the_method_is_named_for_what_it_is() -> None:
    """Ray keeps the methods of the process that first started it."""
    handle = ControllerHandle("c", SimpleNamespace(), REAL.clock)
    for ask in (handle.ask, handle.insist):
        with pytest.raises(
            ClusterError, match="the controller of cluster 'c' was first started by a release that cannot"
        ):
            ask("removal", 3)


def test_after_it_was_left_it_is_asked_nothing() -> None:
    handle = ControllerHandle("c", SimpleNamespace(), REAL.clock)
    assert handle.is_known
    handle.leave()
    assert not handle.is_known
    for ask in (lambda: handle.ask("status"), handle.check):
        with pytest.raises(ClusterError, match="cluster 'c' has ended, or this program has left it"):
            ask()
