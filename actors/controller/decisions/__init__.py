"""The controller's decisions, as functions of the metadata: they return records, and apply nothing.

`operations` is the table of the operations that brokers ask for, with their functions; all have the signature of
`decision`. The functions are in `topics`, `configs`, `elections` (leaders and in-sync sets), `reassignments` (moves of
replicas), `acls`, `users`, `quotas`, `producer_ids` and `state_partitions`. `replacement`, `removal` and `draining`
decide about brokers. `pairs` makes records from decisions. `beginning` has the records that a controller begins with.
"""
