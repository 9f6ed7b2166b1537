"""A running Ray answers all that we ask of its inside, in the form that we read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import ray

from actors.runtime import ray_inside, ray_runtime

pytestmark = pytest.mark.usefixtures("embedded_ray")


@ray.remote(num_cpus=0)
class Idle:
    def ready(self) -> None:
        pass


def test_a_ray_that_asks_for_a_token_is_known_and_answers() -> None:
    ray_inside.read_settings_again()
    ray_inside.forget_read_token()
    assert ray_inside.gives_token()
    assert ray_inside.has_token()
    ray_inside.knock(ray.get_runtime_context().gcs_address)


def test_nodes_tell_what_is_free_and_whether_they_are_drained() -> None:
    (node,) = ray.nodes()
    free = ray_inside.available_by_node()
    assert free.keys() == {node["NodeID"]}
    assert 0 < free[node["NodeID"]]["memory"] <= node["Resources"]["memory"]
    assert ray_inside.draining_nodes() == {}


def test_an_actor_is_placed_if_there_is_room() -> None:
    placed, waits = Idle.remote(), Idle.options(num_cpus=1_000).remote()
    ray.get(placed.ready.remote())
    assert ray_inside.is_placed(placed)
    assert not ray_inside.is_placed(waits)
    for each in (placed, waits):
        ray.kill(each)


def test_the_folder_of_a_session_is_as_we_read_it() -> None:
    logs = Path(ray_inside.logs_folder())
    folder = logs.parent.parent
    assert (folder / ray_inside.LOGS).resolve() == logs.resolve()
    sockets = list(folder.glob(ray_inside.SOCKETS))
    assert sockets
    assert max(len(str(each.relative_to(folder))) for each in sockets) <= len(ray_inside.LONGEST_SOCKET)


def test_what_a_ray_cannot_be_without_is_in_groups_of_its_own() -> None:
    core = ray_runtime.core()
    assert len(core) == len(ray_inside.CORE)
    assert [os.getpgid(each.pid) for each in core] == [each.pid for each in core]


def test_rays_threads_in_a_driver_have_its_name() -> None:
    assert any(each.name.startswith(ray_inside.THREADS) for each in threading.enumerate())
