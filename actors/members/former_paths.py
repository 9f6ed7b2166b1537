"""The paths that modules had in earlier builds, for pickles that name them: each is found where it is now.

Four kinds of pickles outlive the installation of another build:

    versions of deployed pools, in the topic `__coterie_pools`: they name what the handler uses of ours
    answers of supervisors that an earlier build has started: descriptions of pools and of their members
    errors that such a supervisor raises
    actors and tasks that a running program of an earlier build starts: they then say that the versions differ

A path goes from the table when no build is left that had it. PoolSupervisor's class, which Ray keeps from the build
that started it, names only modules that have not moved: those of `deployment`, `draining`, and `logs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Final

MOVED: Final[Mapping[str, str]] = {
    # Names that users get from `coterie`, and may use in handlers.
    "actors.members.crew": "actors.members.pools.status",
    "actors.members.handling": "actors.members.pools.handling",
    "actors.members.handling.context": "actors.members.pools.handling.context",
    "actors.members.plan": "actors.members.pools.plan",
    "actors.members.ray_data": "actors.members.ranges.ray_data",
    "actors.members.ray_follow": "actors.members.ranges.ray_follow",
    "actors.members.slots": "actors.members.pools.status",
    # Names in the classes of our actors, and in tasks of Ray Data.
    "actors.members.handler_member": "actors.members.pools.handler_member",
    "actors.members.handling.ending": "actors.members.pools.handling.ending",
    "actors.members.handling.spec": "actors.members.pools.handling.spec",
    "actors.members.range_group": "actors.members.ranges.group",
    "actors.members.range_member": "actors.members.ranges.member",
    "actors.members.ray_datasource": "actors.members.ranges.ray_datasource",
    "actors.members.reads": "actors.members.ranges.reads",
}
_PACKAGES: Final = frozenset({"actors.members.handling"})


class FormerPaths(MetaPathFinder, Loader):
    """Imports a module by its former path: the names of the present one, looked up when they are asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that has moved; None for any other."""
        if fullname not in MOVED:
            return None
        return spec_from_loader(fullname, self, is_package=fullname in _PACKAGES)

    def exec_module(self, module: ModuleType) -> None:
        """Have the module give the names of the present one."""
        vars(module)["__getattr__"] = partial(getattr, import_module(MOVED[module.__name__]))
