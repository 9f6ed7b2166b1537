"""Pickles of earlier builds name our classes at the paths that they had: `actors/members/former_paths.py`."""

from __future__ import annotations

import pickle
import pickletools
from importlib import import_module
from typing import Any

import pytest
from ray import cloudpickle

import coterie
from actors.members.deployment.supervisor_actor import PoolSupervisor
from actors.members.former_paths import MOVED
from actors.members.pools.handler_member import MemberLoop
from actors.members.pools.handling.ending import run_until_terminated
from actors.members.pools.handling.spec import MemberSpec
from actors.members.ranges.group import Held, Holding, RangeMemberSpec
from actors.members.ranges.member import RangeMember
from actors.members.ranges.ray_datasource import read_range
from actors.members.ranges.reads import Reading

NAMED: dict[str, dict[str, Any]] = {
    "crew": {"SizeChange": coterie.SizeChange},
    "handler_member": {"MemberLoop": MemberLoop},
    "handling.context": {"Context": coterie.Context},
    "handling.ending": {"run_until_terminated": run_until_terminated},
    "handling.spec": {"MemberSpec": MemberSpec},
    "plan": {"PoolError": coterie.PoolError},
    "range_group": {"Held": Held, "Holding": Holding, "RangeMemberSpec": RangeMemberSpec},
    "range_member": {"RangeMember": RangeMember},
    "ray_data": {"GroupRead": coterie.GroupRead, "read_group": coterie.read_group},
    "ray_datasource": {"read_range": read_range},
    "ray_follow": {"BatchNotReadError": coterie.BatchNotReadError, "GroupFollow": coterie.GroupFollow},
    "reads": {"Reading": Reading},
    "slots": {"MemberStatus": coterie.MemberStatus},
    # Not moved:
    "autoscale": {"Autoscale": coterie.Autoscale},
    "deployment.deployed": {"DeployedPool": coterie.DeployedPool},
    "deployment.description": {
        "PoolDescription": coterie.PoolDescription,
        "PoolState": coterie.PoolState,
        "RolloutStatus": coterie.RolloutStatus,
    },
    "logs.journal": {"MemberLine": coterie.MemberLine},
    "pool": {"ConsumerPool": coterie.ConsumerPool},
}
OF_SUPERVISORS = {
    "actors.links.versions": ["check_starter"],
    "actors.members.deployment.claim": ["Here"],
    "actors.members.deployment.home": ["Home"],
    "actors.members.deployment.pools_topic": ["PoolsTopic"],
    "actors.members.deployment.spec": ["SupervisorSpec", "SupervisorStart"],
    "actors.members.deployment.steward": ["Here", "Steward"],
    "actors.members.deployment.supervisor_actor": ["SupervisorSpec"],
    "actors.members.draining": ["leave_when_drained"],
    "actors.runtime.logs": ["TEXT", "formatter"],
}
"""Names in the methods of supervisors that earlier builds have started: Ray keeps those methods from start to start."""


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in NAMED.items() for name in names])
def test_a_pickle_of_an_earlier_build_is_read(path: str, name: str) -> None:
    """The pickle is as `cloudpickle` writes what can be imported: a module, and a name in it."""
    found = pickle.loads(f"cactors.members.{path}\n{name}\n.".encode())
    assert found is NAMED[path][name]


def test_every_former_path_leads_somewhere() -> None:
    for former, present in MOVED.items():
        assert vars(import_module(former))["__getattr__"].args == (import_module(present),), former


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("actors.members.never")


def test_supervisors_of_earlier_builds_find_all_that_they_name() -> None:
    for path, names in OF_SUPERVISORS.items():
        assert [name for name in names if not hasattr(import_module(path), name)] == [], path


def test_a_supervisors_methods_name_modules_that_have_not_moved() -> None:
    """So a supervisor that this build starts is restarted by the builds before it, too, after a way back."""
    shell = PoolSupervisor.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    texts = {text for _, text, _ in pickletools.genops(cloudpickle.dumps(shell)) if isinstance(text, str)}
    named = {text for text in texts if text.startswith("actors.members.")}
    assert named - {"actors.members.deployment"} <= OF_SUPERVISORS.keys()
