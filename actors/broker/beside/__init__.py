"""Beside a log: machines that live with a partition's leader, and have their state in a log that moves with it.

**Purpose.** Some of what Kafka does for clients has to be decided where a partition's records are, by the broker that
leads the partition, and has to survive that broker: which records of a partition each share group has been given and
has acknowledged (KIP-932) is such a thing. The machine that decides is a *guest* (guest.py): pure, driven by calls that
carry the time, as a coordinator's shard is. Here is what it needs of a broker.

**The place of its state.** Not in the partition's own log: those offsets are the user's. It is in a *state partition*,
a partition of an internal topic, and the two are a pair (`placement.pairs`). The controller makes the pair when the
guest is first asked for, with the same replicas, and elects the two together (`placement.together`, and
`controller/decisions/pairs.py`, where decisions become records): one record moves both. So the leader of the data has
the state on its own disk, the lease of the one fences the other, and what stops the guest stops the partition anyway. A
state partition that nobody can lead together with the data has no leader; the data is served nevertheless.

**The life of a guest** (seat.py). When an image says that this broker leads both of a pair, a seat is made, and its
guest replays the state partition's log. It serves when all that was replayed has committed; until then it answers
COORDINATOR_LOAD_IN_PROGRESS. If the log cannot be read it answers COORDINATOR_NOT_AVAILABLE, and the load is tried
again every two seconds; produce and fetch know nothing of that. Another leader epoch of either partition ends the seat.
A repair of the state log, after which nobody knows what of it was refused, makes the guest anew.

**The calls, and when they may be made.**

- A handler calls `Guests.ask` in the turn in which it has its request, or reads for its fetch: the guest sees the log
  as the handler does. The lease is checked there as for Produce. The answer comes before `ask` returns, unless it
  depends on records. An outcome that `wakes` has parked fetches of the partition try again, as new records do.
- A guest's records of one turn share an append (writes.py, state_log.py). The guest hears of them once more: by
  `replay` when they have committed, and then the answer leaves; or by `refused` when they are not in the log, and then
  the answer is COORDINATOR_NOT_AVAILABLE. After `write_timeout_ms` that is the answer, too, and `replay` may still
  follow. When the seat ends or its log is repaired, neither does: the answer is NOT_LEADER_OR_FOLLOWER, the guest is
  gone, and another one, here or elsewhere, is made of what the log has.
- A guest is woken at `next_due_ms`, after which it is asked for its next time.
- `Guests.apply`, `Guests.reload` and `Guests.close` are the broker's: after each image, after the repair of a log, at
  its stop.

**A new guest** is a room of its own (the machine and its records) and a row in registry.py. Nothing is paid
for guests that nobody has asked for: there is no state partition, and neither produce nor fetch looks here.

    guest.py      what a guest is      host.py    all of a broker     state_log.py   the state partition's log
    registry.py   the table of kinds   seat.py    one of them         writes.py      what has not committed yet
"""
