"""The controller's decisions, as functions of the metadata: they return records, and apply nothing.

`operations` is the table: operations that brokers ask for, and their functions; all have the signature of `decision`.
`topics`, `configs`, `elections` (who leads and who is in sync), `reassignments` (moves of replicas), `acls`, `users`,
`quotas` and `producer_ids` have them. `beginning` has the records that a controller begins with.
"""
