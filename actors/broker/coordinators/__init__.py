"""The processes in which a broker's groups are coordinated: started, loaded, asked, and replaced when they die.

`hub` puts the parts together, and is all that the rest of the broker sees. `processes` has the processes, spares
included, `link` is one of them, and `partitions` says which of them has which partition. `loading` sends a log to a
shard, `relaying` sends requests and answers, `topics` tells of new and deleted topics, and `appending` writes what a
shard decides. `readiness` says whether a partition can be asked, and keeps in `parking` what waits until it can.
"""
