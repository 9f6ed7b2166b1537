"""Server-side assignors (KIP-848) divide partitions among the members of a group. Pure functions of the group.

A group's target is computed anew after its members, their subscriptions or its topics have changed. The assignor sees
the members with their previous targets, not what they hold at the moment, so that a member that gives partitions up
slowly does not make others move.

| assignor | balance | keeps previous targets |
| --- | --- | --- |
| `uniform`, same subscriptions (homogeneous.py) | over all topics, sizes differ by at most one | up to the quota |
| `uniform`, else (heterogeneous.py, with loads.py) | as far as subscriptions allow | until balance asks for a move |
| `range` (ranges.py) | topic by topic | no |

Beyond Kafka, `uniform` prefers members in the rack of a partition's leader, if it is told the racks (affinity.py).

A large group takes tens of milliseconds to seconds. `steps` computes the same target in slices (slices.py), between
which a shard can serve its other groups; `assign` runs them all at once. A member whose target does not change keeps
the same mapping object, so that `is` finds the members that change.
"""

from actors.coordinator.assignors.ranges import RangeAssignor
from actors.coordinator.assignors.slices import SlicedAssignor
from actors.coordinator.assignors.uniform import UniformAssignor

ASSIGNORS: tuple[SlicedAssignor, ...] = (UniformAssignor(), RangeAssignor())
"""The built-in assignors, in the order of Kafka's default of `group.consumer.assignors`."""
