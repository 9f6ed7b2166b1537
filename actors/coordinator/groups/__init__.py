"""The parts that groups of all types share: their offsets, and how groups are listed, expire and are deleted.

A *group* is known by its id. Its *type* defines how members join and leave and how partitions are divided. `Group`
(group.py) is the interface of a group for this room, `GroupType` (types.py) has the parts of a type, and
`GroupCoordinator` (coordinator.py) puts them together. A group without members, which is used only for its offsets, is
of the classic type.

**Durable state.** The log of a shard holds committed offsets (offset_records.py), and the records by which each type
describes its groups. `DurableState` (durable.py) is their content up to the high watermark; nothing but its `replay`
changes it, so loading the log always gives the same state. Offsets and empty groups are deleted some days after their
last use (KIP-211; expiry.py), and offsets of deleted topics at once (topic_deletion.py).

**Nothing depends on what has not committed**: a commit does not look at pending ones, and a group whose tombstones are
under way takes no requests. Reads see only committed state.
"""
