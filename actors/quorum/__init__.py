"""A quorum: several nodes that keep one log, whose entries survive the loss of any minority of their disks. No I/O.

It is Raft, as small as a controller needs it. `actors/controller/metadata/quorum_log.py` drives it. No cluster has
several voters yet: its one controller is one of them alone.

**The log.** One voter leads in an epoch. It appends entries and sends them to the others; what a majority has synced
has committed. Only an entry of the leader's own epoch commits by being counted, and all before it with it; so a leader
begins with an entry without records. A follower whose log differs cuts off what the leader does not have. It says how
far it knows that all has committed: from there on the logs can differ, and not before.

**Elections.** A voter that hears no leader asks first whether it would be elected, and only if a majority says so does
it begin an epoch. A voter gives one vote in an epoch, to a log at least as up to date as its own, and none while it
hears a leader. It syncs its vote before it gives it, and entries before it acknowledges them; `Outbox` is the one place
where messages wait for the disk.

**The lease.** A leader that a majority has answered within the least election timeout knows that nobody else leads:
each of that majority hears it, and elects nobody for so long. It counts from the beginning of the round that was
answered, which was before anybody heard of it. A voter that begins anew has forgotten whom it has heard; so it elects
nobody for so long, either. A leader without a majority resigns when that time is over.

**Voters** are nodes with their directories: a node with an empty disk is another one, which only follows until it is
added. The set is in the log, and is in force as soon as it is there. It changes by one voter at a time. A voter that
takes itself out of the set leads until that has committed; if it ends before, it may stand again, because nobody else
may have the newest log.

**Alone.** A voter that has always been the only one leads when it starts. It has no timers and sends no messages, and
its entries have committed when they are on disk.

- `voter`: the machine. It is told what happens and the time, and says what is to be done (`effects`).
- `elections`, `replication`, `membership`: the rules it goes by. `replica`: its own copy of the log.
- `log`, `durable`: the log in memory, and what is on disk. `messages`: what voters say to one another.

The driver writes and syncs, sends, and asks the time anew for each call. A message may be lost, or come twice, late or
in any order. A disk that loses what it has synced is another disk: it needs another directory id.
`tests/sim/quorum` takes all of it through crashes, lost disks and cut links.

Sources: D. Ongaro, Consensus: Bridging Theory and Practice (2014), chapters 3, 4 (one change at a time), 6.4 (leases)
and 9.6 (pre-vote); KIP-595 (Raft in Kafka), KIP-853 (directory ids of voters), KIP-996 (pre-vote).
"""
