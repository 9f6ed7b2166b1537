"""What the controller decides, as rules over the metadata: they return records, and nothing is applied here.

Topics and partitions, settings, who leads and who is in sync, moves of replicas.
"""
