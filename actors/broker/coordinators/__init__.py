"""The processes in which a broker's coordinators run: started, loaded, asked, and replaced when they die.

`host` is all that the rest of the broker sees. It has the processes, and a `hub` for each kind of coordinator
(`actors.coordinator_kinds`), which puts the parts of that kind together. `processes` has all processes, spares
included, `link` is one of them, and `partitions` says which of them has which partition. `loading` sends a log to a
shard, `relaying` sends requests and answers, `topics` tells of new and deleted topics, and `appending` writes what a
shard decides. `readiness` says whether a partition can be asked, and keeps in `parking` what waits until it can.
"""
