"""What the controller decides, as functions of the metadata: they return records, and apply nothing.

`topics`, `configs`, `elections` (who leads and who is in sync) and `reassignments` (moves of replicas).
"""
