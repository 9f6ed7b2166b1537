"""Pools that outlive their program: where their truth is, who looks after them, and why nothing is done by two.

A deployed pool has a name. Its description stands in a compacted topic of the Kafka cluster that it reads from,
`__coterie_pools` (`records`, `book`, `pools_topic`): the handler and its settings, the size, whether it pauses.
Programs write there (`deployed`), and nobody has to be alive for that. A *supervisor*, a detached actor of Ray's,
follows the topic and does what it says (`supervisor_actor`, `steward`, `tending`). Ray restarts it when it dies. It
keeps nothing that is not in the topic or in the group, so the next one goes on where it was. Members stay static, as
`NAME-0`, `NAME-1`, ...: when everything was killed, they get the partitions that they had.

**Wishes.** Each thing that can be wished has a key of its own: the version, the size, the pause, the restarts. So two
wishes at a time do not undo each other, unless they are about the same thing; then the later one in the topic holds.
A supervisor's findings (`Progress`, and the last version that was good) have keys which only it writes. A name
that is deployed again after `stop` is another pool, with another `incarnation`: wishes for the one before are ignored.

**Nothing by two.** Two supervisors of one pool cannot run on one Ray: the actor's name is taken. A supervisor writes a
`Term` before it starts anybody, and ends when it reads another's: one whose node was cut off, or whose pool was started
on a second Ray (`claim`). Members die with their supervisor, in three ways, each sufficient alone where it works:

1. A member of a deployed pool ends itself as soon as its connection to the supervisor ends: milliseconds after the
   supervisor's process has died. It is not asked to finish: its successor would begin the same record meanwhile.
2. It ends itself when it has heard nothing from its supervisor for `LEASH_SECONDS` (15). A supervisor says something
   several times meanwhile, and starts a successor only when the connection has ended, or the member's machine has
   acknowledged nothing for 30 seconds. So a member that the network cuts off has ended before its successor starts,
   whatever it can still reach.
3. Ray ends the actors of an owner that has died. This also ends a member whose handler keeps Python's lock in C.

A member that was stopped as a whole (SIGSTOP) handles nothing; when it goes on it finds its connection ended. One case
is left: a member cannot notice while its handler holds Python's lock. It goes on for as long as Ray needs to end it
(about two seconds), while the successor's process has to start first (about one second). Its commits are refused then:
the successor has the same instance id and fences it (KIP-345).

**A new version** rolls through the members one at a time (`rollout`): each finishes what is in hand, commits and ends;
its successor is the same static member, so the others notice nothing.
"""
