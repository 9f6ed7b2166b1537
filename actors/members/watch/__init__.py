"""A pool's watch over members that say nothing: it sends their heartbeats, and ends those that are silent for too long.

**The interpreter's lock.** A member's heartbeats have a thread of their own, so a handler may take its time. But code
in C that does not give the interpreter's lock away (some of `re`, numpy, image libraries) stops every thread of its
process: no heartbeat goes out, the coordinator expels the member, and its record is begun again, for ever. So somebody
whom the lock does not reach has to send them meanwhile.

**The pool does it.** It runs in another process: the program's, or a deployed pool's supervisor. It has a connection to
each member, over which a report comes five times a second; so it knows when one falls silent, and under which member id
and generation it stands in the group, of which the member tells it before its handler goes on. Kafka asks who a
heartbeat is of, and not over which connection it comes. See docs/decisions for what else was weighed.

**Life and death.** A process that has ended ends its connection, by kill -9, too. A machine that has vanished
acknowledges no TCP segment any more, which the kernel tells (`links.keepalive`); after MACHINE_SECONDS the connection
is ended here. All others live, and their handler has `max_poll_interval_ms`, as one that does not keep the lock. It is
that setting that ends a member whose process stands still or is deadlocked: the pool kills it, and says so.

    overrun      how long the handler, its hooks and the start may take
    silence      one member's silence: when a heartbeat is due, when it has lasted too long; without I/O
    heartbeats   sends heartbeats in the name of members, over a connection of its own that is made when one is due
    watching     the thread that looks at all members

A rebalance that begins while a handler keeps the lock waits for it, as for any handler. With `concurrency` above 1
handlers run while their member joins. One that keeps the lock just then keeps its member from reading JoinGroup's
answer, which has the next generation; so a heartbeat that is refused for its generation is sent with the next one.
"""
