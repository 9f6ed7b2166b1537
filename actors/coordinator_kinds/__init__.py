"""The kinds of coordinators that brokers host. A kind defines a coordinator's topic, keys, records and shards.

A broker's `coordinators` and a shard's process (`offsets_partition`) host any kind: they load its log, relay requests,
append records, let partitions sleep and replace dead processes. A `CoordinatorKind` (`kind`) has all that differs.
`table` lists the kinds. A new kind is a room beside `groups`, and an entry of that table.
"""
