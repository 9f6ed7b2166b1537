"""The common ground of groups of all types: their offsets, and how they are listed, expire and are deleted.

A *group* is known by its id. Its *type* says how members come and go and how partitions are divided; `Group` (group.py)
is what this room knows of a group, `GroupType` (types.py) what a type brings along, and `GroupCoordinator`
(coordinator.py) puts all of it together. A group without members, which is used for its offsets alone, is of the
classic type.

**Durable state.** The log of a shard holds committed offsets (offset_records.py), and the records by which each type
describes its groups. `DurableState` (durable.py) is what they say up to the high watermark; nothing but its `replay`
changes it, so loading the log always gives the same. Offsets and empty groups go some days after they were last used
(KIP-211; expiry.py), and offsets of deleted topics at once (topic_deletion.py).

**Nothing depends on what has not committed**: a commit does not look at pending ones, and a group whose tombstones are
under way takes no requests. Reads see what has committed.
"""
