"""Coordination: a generic host of coordinators, and the coordinator of groups.

A *shard* (shard.py) is one partition of a coordinator's topic with all that is kept in it. It knows nothing of the work
that it coordinates; `Coordinator` says what it needs of that. Groups are the one kind there is:

- this folder is the host: the shard, the writer (writer.py), loading (loading.py) with a registry of record types
  (records.py), timers (timers.py), and the question whether a process is needed (sleep.py);
- `groups` has what groups of all types share, and puts the group coordinator together;
- `classic` and `consumer` are types of groups. group_types.py has the table of types;
- `assignors` decides who of a group shall have which partitions, for types whose groups do not decide it themselves.

**Durable state.** A shard's log holds records of types that the coordinator registers. Their contents up to the high
watermark are its durable state; nothing but the state's `replay` changes it, so loading the log always gives the same.
Parked requests and timers are live state, and are lost with the process.

**A request's way.** A request either is answered at once, or makes a `Write`: changes, with what to do when they have
committed, have been refused, or are late (writer.py). All of one turn share an append. Live state and the answer wait
for the commit; so there is nothing to undo when an append fails. If it is unknown whether it did, the shard forgets
everything and is loaded again.

Sans-IO: no socket, clock, randomness or Ray here, and no knowledge of the wire or the log's batches. Time, ids and
outcomes are handed in; requests, answers and appends are plain values. `group_types.group_shard` is the way in.
"""
