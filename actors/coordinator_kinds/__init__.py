"""The kinds of coordinators that brokers host: what a coordinator's topic, keys, records and shards are.

A broker's `coordinators` and a shard's process (`offsets_partition`) host any kind: they load its log, relay requests,
append, put to sleep and replace what dies, and take all that they do not know from a `CoordinatorKind` (`kind`).
`table` lists the kinds there are. A new kind is a room beside `groups`, and an entry of that table.
"""
