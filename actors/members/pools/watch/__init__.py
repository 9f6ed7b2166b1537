"""A pool's watch over silent members: it sends heartbeats for them, and ends those that are silent for too long.

**The interpreter's lock.** A member's heartbeats have a thread of their own, so a handler may take its time. But C code
that does not release the interpreter's lock (some of `re`, numpy, image libraries) stops every thread of its process:
no heartbeat is sent, the coordinator expels the member, and its record begins again on another one, for ever. So a
process without that lock has to send the heartbeats.

**The pool does it.** It runs in another process: the program's, or a deployed pool's supervisor. It has a connection to
each member, over which a report comes five times a second; so it knows when one falls silent, and it knows the member's
id and generation, because the member reports them before its handler continues. A Kafka broker checks the member of a
heartbeat, not its connection. docs/decisions has the alternatives.

**Life and death.** A process that has ended ends its connection, by kill -9, too. A machine that has vanished
acknowledges no TCP segment any more, which the kernel tells (`links.keepalive`); after MACHINE_SECONDS the connection
is ended here. All other members live, and their handler has `max_poll_interval_ms`, like a handler that does not hold
the lock. This setting also ends a member whose process is stopped or deadlocked: the pool kills it, and logs that.

    overrun      how long the handler, its hooks and the start may take
    silence      one member's silence: when a heartbeat is due, and when the silence is too long; without I/O
    heartbeats   sends heartbeats for members, over a separate connection that is made when one is due
    stand_in     one such heartbeat, by the member's group protocol
    watching     the thread that looks at all members

A rebalance that begins while a handler holds the lock waits for it, as for any handler. With `concurrency` above 1
handlers run while their member joins. A handler that holds the lock then prevents its member from reading JoinGroup's
answer, which has the next generation. So if a heartbeat is refused for its generation, it is sent with the next one.
"""
