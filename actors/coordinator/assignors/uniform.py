"""`uniform`: all members get equally many partitions, as far as their subscriptions allow, and keep what they had."""

from actors.coordinator.assignors.affinity import nearer_steps
from actors.coordinator.assignors.assignor import GroupSpec, Target
from actors.coordinator.assignors.heterogeneous import heterogeneous_steps
from actors.coordinator.assignors.homogeneous import homogeneous_steps
from actors.coordinator.assignors.slices import Slices, finish


class UniformAssignor:
    """Kafka's assignor of this name."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Target:
        return finish(self.steps(group))

    def steps(self, group: GroupSpec) -> Slices:
        alike = group.homogeneous and group.members
        made = homogeneous_steps(group) if alike else heterogeneous_steps(group)
        return _near_leaders(group, made) if group.leaders else made


def _near_leaders(group: GroupSpec, made: Slices) -> Slices:
    target = yield from made
    return (yield from nearer_steps(group, target))
