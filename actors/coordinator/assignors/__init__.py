"""Server-side assignors (KIP-848): who of a group shall have which partitions. Pure functions of the group.

A group's target is computed anew after its members, their subscriptions or its topics have changed. The assignor sees
the members with their previous targets, not what they hold at the moment, so that a member that is slow to give
something up does not make partitions wander.

| assignor | balance | keeps previous targets |
| --- | --- | --- |
| `uniform`, all subscribe the same (homogeneous.py) | over all topics, sizes differ by one at most | up to the quota |
| `uniform`, else (heterogeneous.py, with loads.py) | as far as subscriptions allow | until balance asks for a move |
| `range` (ranges.py) | topic by topic | no |

Beyond Kafka, `uniform` has partitions that it gives out be near their leaders, where it is told of racks (affinity.py).

A large group takes tens of milliseconds to seconds. `steps` gives the same target in slices (slices.py), between which
a shard can serve its other groups; `assign` runs them all at once. A member whose target stays gets the very mapping
that it had, so that `is` finds the others.
"""

from actors.coordinator.assignors.ranges import RangeAssignor
from actors.coordinator.assignors.slices import SlicedAssignor
from actors.coordinator.assignors.uniform import UniformAssignor

ASSIGNORS: tuple[SlicedAssignor, ...] = (UniformAssignor(), RangeAssignor())
"""The built-in assignors, in the order of Kafka's default of `group.consumer.assignors`."""
