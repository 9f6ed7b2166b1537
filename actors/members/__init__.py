"""Members of groups in Ray actors, in three rooms over what all members share.

    pools        members that call a handler for their records, and the pool that supervises them
    ranges       members for Spark and Ray Data, which read the records themselves
    deployment   pools that outlive their program

`pool` is what programs call: ConsumerPool, over the rooms `pools` and `deployment`. Pools and ranges do not know each
other.

Shared: `member_link` is the connection between a member's actor and whoever started it (`reporting` and `raised` are
parts of it), and `logs` has the lines that members print. `draining` is about nodes that Ray drains, `committed` and
`brokers_there` ask brokers, `log_fields` names a member in the log. `autoscale` is the rule by which a size follows
its load, and `workload` the work of members: pools and Spark jobs use both.

Modules were elsewhere in earlier builds, whose pickles may name them: `former_paths`.
"""

import sys

from actors.members.former_paths import FormerPaths

sys.meta_path.insert(0, FormerPaths())  # it is asked first: a folder that an update has left behind is a package, too
