"""A quorum: several nodes that keep one log, whose entries survive the loss of any minority of their disks. No I/O.

It is Raft, as small as a controller needs it. `actors/controller/metadata/quorum_log.py` drives it. Where a
cluster has one controller, that is the only voter.

**The log.** One voter leads in an epoch. It appends entries and sends them to the others; an entry that a majority has
synced has committed. Only entries of the leader's own epoch are counted so, and all entries before them commit with
them; so a leader begins with an entry without records. A follower whose log differs truncates the entries that the
leader does not have. It reports up to where it knows that all entries have committed: the logs can differ only after
that.

**Elections.** A voter that hears no leader first asks whether it would be elected (pre-vote), and begins an epoch only
if a majority agrees. A voter gives one vote in an epoch, to a log at least as up to date as its own, and none while it
hears a leader. It syncs its vote before it gives it, and entries before it acknowledges them; `Outbox` is the one place
where messages wait for the disk.

**The lease.** A leader that a majority has answered within the least election timeout knows that nobody else leads:
each voter of that majority has heard it, and elects nobody for that time. The lease counts from the beginning of the
answered round, which was before any voter heard of it. A restarted voter has forgotten which leader it heard; so it
elects nobody for that time, either. A leader without a majority resigns when its lease ends.

**A voter** is a node with its directory: a node with an empty disk is another voter, which only follows until it is
added. The set of voters is in the log, and a new set is in force as soon as it is in the log. It changes by one voter
at a time. A leader that removes itself leads until that has committed; if it ends before, it may be elected again,
because perhaps no other voter has the newest log.

**Alone.** A voter that has always been the only one leads when it starts. It has no timers and sends no messages, and
its entries have committed when they are on disk.

- `voter`: the state machine. Events and the time go in, and actions come out (`effects`).
- `elections`, `replication`, `membership`: the rules it goes by. `replica`: its own copy of the log.
- `log`, `durable`: the log in memory, and its part on disk. `messages`: the messages between voters.

The driver writes, syncs and sends, and reads the clock anew for each call. A message may be lost, or arrive twice, late
or in any order. A disk that loses synced data counts as a new disk: it needs a new directory id. `tests/sim/quorum`
tests all of this with crashes, lost disks and cut links.

Sources: D. Ongaro, Consensus: Bridging Theory and Practice (2014), chapters 3, 4 (one change at a time), 6.4 (leases)
and 9.6 (pre-vote); KIP-595 (Raft in Kafka), KIP-853 (directory ids of voters), KIP-996 (pre-vote).
"""
