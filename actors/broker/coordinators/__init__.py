"""The processes in which a broker's coordinators run: started, loaded, asked, and replaced when they die.

The rest of the broker uses only `host`. `host` has the processes, and for each kind of coordinator
(`actors.coordinator_kinds`) a `hub`, which puts the parts of that kind together. `processes` has all processes, spares
included; `link` is one process, and `partitions` knows which process has which partition. `loading` sends a log to a
shard, `relaying` passes on requests and answers, and `appending` writes the shard's records. `topics` and `settings`
report changes to shards; `visible` answers a shard's question which topics a client may see. `readiness` knows whether
a shard serves, and keeps requests in `parking` until it does. `idling` asks idle shards whether they may sleep, and
`sleeping` has the partitions that do. `describing` and `history` are for operators.
"""
