"""Guests beside a log: state machines that run with a partition's leader, and keep their state in a log beside it.

**Purpose.** Some decisions have to be made where a partition's records are, by the broker that leads the partition, and
have to survive that broker. An example is share groups (KIP-932): which records of a partition has each group been
given, and which has it acknowledged? The state machine that decides is a *guest* (guest.py). Like a coordinator's
shard, it is pure, and calls carry the time. This package has what a guest needs of a broker.

**The place of its state.** A guest's state is not in the partition's own log, whose offsets belong to the user. It is
in a *state partition*, a partition of an internal topic, and the two are a pair (`placement.pairs`). The controller
makes the pair at the guest's first request, with the same replicas, and elects the same leader for both
(`placement.together`, and `controller/decisions/pairs.py`, where decisions become records): one record moves both. So
the leader of the data has the state on its own disk, the lease of one partition fences the other, and a failure that
stops the guest would stop the partition anyway. If no broker can lead both, the state partition has no leader; the data
is served nevertheless.

**The life of a guest** (seat.py). When an image says that this broker leads both partitions of a pair, the broker makes
a *seat*, whose guest replays the state partition's log. The guest serves when all replayed records have committed;
until then it answers COORDINATOR_LOAD_IN_PROGRESS. If the log cannot be read, it answers COORDINATOR_NOT_AVAILABLE, and
the load is tried again every two seconds; this does not affect produce and fetch. A new leader epoch of either
partition ends the seat. After a repair of the state log, it is unknown which records were refused, so the guest is made
anew.

**The calls, and when they may be made.**

- A handler calls `Guests.ask` in the turn in which it gets its request, or in which it reads for its fetch, so that the
  guest sees the log as the handler does. `ask` checks the lease as for Produce. The answer comes before `ask` returns,
  unless it depends on records. An outcome with `wakes` makes parked fetches of the partition try again, as new records
  do.
- A guest's records of one turn share an append (writes.py, state_log.py). Later the guest gets one call for them:
  `replay` when they have committed, and then the answer leaves; or `refused` when they are not in the log, and then the
  answer is COORDINATOR_NOT_AVAILABLE. After `write_timeout_ms` the answer is the same, and `replay` may still follow.
  If the seat ends or its log is repaired, neither call follows: the answer is NOT_LEADER_OR_FOLLOWER, and a new guest,
  on this broker or another, is loaded from the log.
- A guest is woken at `next_due_ms`, and then asked for its next time.
- The broker calls `Guests.apply` after each image, `Guests.reload` after the repair of a log, and `Guests.close` when
  it stops.

**A new guest** is a room of its own (the state machine and its records) and a row in registry.py. An unused guest costs
nothing: there is no state partition, and produce and fetch do not call this package.

    guest.py      the interface of a guest   host.py   all guests of a broker   state_log.py   the state partition's log
    registry.py   the table of kinds         seat.py   one guest                writes.py      uncommitted writes
"""
