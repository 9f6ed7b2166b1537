"""The executors of a session by their work, and the way to have more or fewer of them: Spark's own, no cluster's.

SparkContext's `requestTotalExecutors` and `killExecutors` work with RayDP, standalone, YARN and Kubernetes. They do not
with Spark in one JVM; not while Spark's dynamic allocation decides; and not on a Ray of several nodes, where RayDP
places executors by the bundles of a placement group, which has one for each that the session began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_bridge.executors import context_of
from spark_bridge.spark_config import MASTER_OPTIONS, TAKES_MORE, executor_cpus, memory_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DRIVER: Final = "driver"
_BUNDLES: Final = "spark.ray.placement_group"
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_MEMORY: Final = "1g"  # Spark's own default for an executor


@dataclass(frozen=True, slots=True)
class ExecutorFigures:
    """The executors that are there now, and the work of all that there have been."""

    ids: tuple[str, ...]
    """Oldest first."""
    slots: int
    """The number of tasks that one of them runs at once."""
    task_s: float | None
    """Seconds that tasks have taken since the session began, summed over all tasks that have ended; None: unknown."""


class SessionExecutors:
    """The executors of one session, and the way to change their number. Raises SessionError if it is no classic one."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = context_of(spark)
        self._conf = dict(self._context.getConf().getAll())
        master = str(self._context.master)
        self._local = master.startswith("local") and not master.startswith("local-cluster")
        self._on_ray = master.startswith("ray")

    @property
    def fixed(self) -> str | None:
        """The reason why their number cannot be changed here; None if it can."""
        if self._local:
            return "Spark runs in one JVM"
        if self._conf.get(_DYNAMIC, "false").lower() == "true":
            return f"{_DYNAMIC} has Spark decide by itself"
        if self._conf.get(_BUNDLES):
            return "on a Ray of several nodes, RayDP gives each executor of the session a fixed place"
        return None

    def look(self) -> ExecutorFigures:
        """The figures now."""
        found = self._context._jsc.sc().statusStore().executorList(False)
        listed = [found.apply(index) for index in range(found.size())]
        # Of the driver Spark says how long it has been there instead of what tasks took.
        all_of_them = [each for each in listed if self._local or each.id() != _DRIVER]
        there = [each for each in all_of_them if each.isActive()]
        cores = there[0].totalCores() if there else int(self._conf.get("spark.executor.cores", "1"))
        return ExecutorFigures(
            ids=tuple(sorted((str(each.id()) for each in there), key=_age)),
            slots=max(1, int(cores) // int(self._conf.get("spark.task.cpus", "1"))),
            task_s=None if self._local else sum(each.totalDuration() for each in all_of_them) / 1000,
        )

    def resize(self, ids: Sequence[str], wanted: int) -> int:
        """Ask for `wanted` executors instead of these. The youngest go; tasks that they run begin anew elsewhere.

        Returns how many there will be: fewer than wanted where Ray has no room, as many as before if Spark refuses.
        """
        if wanted > len(ids):
            total = len(ids) + self._room(len(ids), wanted)
            return total if total > len(ids) and self._request(total) else len(ids)
        context, utils = self._context._jsc.sc(), self._context._jvm.PythonUtils
        if wanted == len(ids) or not context.killExecutors(utils.toSeq(list(ids[wanted:]))):
            return len(ids)
        self._request(wanted)  # else Spark thinks that fewer were asked for than are left
        return wanted

    def _request(self, total: int) -> bool:
        nowhere = self._context._jvm.PythonUtils.toScalaMap({})
        return bool(self._context._jsc.sc().requestTotalExecutors(total, 0, nowhere))

    def _room(self, there: int, wanted: int) -> int:
        """The number that can be added. RayDP would have the others wait in Ray, and ask for them again each time."""
        if not self._on_ray:
            return wanted - there
        from spark_bridge.ray_nodes import room_for

        if TAKES_MORE not in self._conf.get(MASTER_OPTIONS, ""):  # a session that was not made by `session`
            wanted = min(wanted, int(self._conf.get("spark.executor.instances", "0")))
        if wanted <= there:
            return 0
        cores = int(self._conf.get("spark.executor.cores", "1"))
        memory = memory_bytes(self._conf.get("spark.executor.memory", _MEMORY))
        return room_for(wanted - there, executor_cpus(self._conf, cores), memory)


def _age(executor_id: str) -> tuple[int, Any]:
    """Sorts ids by their age: they are numbers that count up."""
    return (0, int(executor_id)) if executor_id.isdecimal() else (1, executor_id)
