"""Members of groups in Ray actors: pools, which call a handler, and members for Spark and Ray Data.

A program makes a pool (`pool`, `plan`), which has a *slot* for each member (`crew`, `slots`, `slot_life`).
`supervision` starts an actor for each slot (`consumer_actor`) and talks to it over a connection (`member_link`). In the
actor, `handler_member` polls a Consumer, has the records handled (room `handling`), and commits. `blame` and `deaths`
count the deaths of processes against the records that were in hand; `scaling` and `autoscale` change the size, and
`draining` moves members away from nodes that Ray drains.

Rooms: `deployment` has pools that outlive their program, `watch` a pool's watch over silent members, and `logs` the
lines that members print.

Spark and Ray Data read ranges of offsets themselves. Their members own partitions and commit, and no handler is called
(`range_member`, `range_group`; `ray_data` and the files `ray_*` for Ray Data).
"""
