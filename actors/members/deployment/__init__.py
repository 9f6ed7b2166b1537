"""Pools that outlive their program: where their state is, who manages them, and why no two do so at once.

A deployed pool has a name. Its description stands in a compacted topic of the Kafka cluster that it reads from,
`__coterie_pools` (`records`, `book`, `pools_topic`): the handler and its settings, the size, whether it pauses.
Programs write there (`deployed`), even while no process of the pool is alive. A *supervisor*, a detached Ray actor,
follows the topic and makes the pool match it (`supervisor_actor`, `steward`, `tending`). Ray restarts it when it dies.
Its whole state is in the topic and in the group, so the next one continues where it stopped. Members are static, with
the instance ids `NAME-0`, `NAME-1`, ...: even after everything was killed, they get the partitions that they had.

**Wishes.** Each thing that programs can wish for has a key of its own: the version, the size, the pause, the restarts.
So two wishes at the same time do not undo each other, unless they have the same key; then the later one in the topic
holds. A supervisor's findings (`Progress`, and the last version that was good) have keys which only it writes. A name
that is deployed again after `stop` is another pool, with another `incarnation`: wishes for the one before are ignored.

**One supervisor at a time.** Two supervisors of one pool cannot run on one Ray: the actor's name is taken. A supervisor
writes a `Term` before it starts a member, and ends when it reads another supervisor's term. That happens if its node
was cut off, or if the pool was started on a second Ray (`claim`). Members die with their supervisor, in three ways,
each sufficient alone where it works:

1. A member of a deployed pool ends itself as soon as its connection to the supervisor ends: milliseconds after the
   supervisor's process has died. It does not finish its record, because its successor would begin the same record
   meanwhile.
2. It ends itself when it has heard nothing from its supervisor for `LEASE_SECONDS` (15). A supervisor sends something
   several times in that time, and starts a successor only when the connection has ended, or the member's machine has
   acknowledged nothing for 30 seconds. So a member that the network cuts off has ended before its successor starts,
   even if it can still reach the brokers.
3. Ray ends the actors of an owner that has died, even a member whose handler holds Python's lock (GIL) in C code.

A member that was stopped as a whole (SIGSTOP) handles nothing; when it continues, it finds its connection ended. One
case is left: a member cannot notice anything while its handler holds Python's lock. It continues until Ray ends it
(about two seconds), and its successor may begin after about one second, when its process has started. From then on the
old member's commits are refused: the successor has the same instance id and fences it (KIP-345).

**A new version** rolls through the members one at a time (`rollout`): each finishes its records in hand, commits and
ends; its successor is the same static member, so the others notice nothing.
"""
