"""Coordination: a generic host of coordinators, and the coordinator of groups.

A *shard* (shard.py) is one partition of a coordinator's topic with the state that is kept in it. It does not know what
it coordinates; `Coordinator` is the interface that it needs. Groups are the only kind so far:

- this folder is the host: the shard, the writer (writer.py), loading (loading.py) with a registry of record types
  (records.py), timers (timers.py), and the decision whether a process is needed (sleep.py);
- `groups` has what groups of all types share, and puts the group coordinator together;
- `classic` and `consumer` are types of groups, and `migration` changes a group from one to the other. group_types.py
  has the table of types;
- `assignors` divides the partitions among the members, for types whose members do not divide them themselves.

**Durable state.** A shard's log holds records of types that the coordinator registers. Their contents up to the high
watermark are its durable state; nothing but the state's `replay` changes it, so loading the log always gives the same
state. Parked requests and timers are live state, and are lost with the process.

**The way of a request.** A request is answered at once, or makes a `Write`: changes, with the actions for when they
have committed, were refused, or are late (writer.py). All writes of one turn share an append. Live state and the answer
wait for the commit, so there is nothing to undo when an append fails. If it is unknown whether the append failed, the
shard drops its state and is loaded again.

Sans-IO: no socket, clock, randomness or Ray here, and no knowledge of the wire or the log's batches. Time, ids and
outcomes are handed in; requests, answers and appends are plain values. `group_types.group_shard` is the entry point.
"""
