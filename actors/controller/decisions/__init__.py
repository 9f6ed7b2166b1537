"""What the controller decides, as functions of the metadata: they return records, and apply nothing.

`operations` is the table: what brokers ask for, and the function that decides it; all have the signature of `decision`.
`topics`, `configs`, `elections` (who leads and who is in sync), `reassignments` (moves of replicas), `acls`, `users`,
`quotas` and `producer_ids` have them. `beginning` is what a controller records first.
"""
