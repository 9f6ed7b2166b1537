"""The protocols between our own processes.

Broker and shard speak `relay`, controller and broker `control`, leader and follower `replication`, a pool and its
members `member`. The messages of each are frozen dataclasses, with one table that encodes and decodes them (`codec`).
`operations` are the requests of brokers to the controller. `connection` carries `control` and `replication`, after both
ends have proved that they know the cluster's secret (`proof`).
"""
