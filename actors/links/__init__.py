"""Our own protocols.

Broker and shard speak `relay`, controller and broker `control`, leader and follower `replication`.
Each has its messages as frozen dataclasses, and one table that encodes and decodes them (`codec`). `operations` are
what brokers have the controller do; `connection` carries the last two links, once both ends have proved themselves.
"""
