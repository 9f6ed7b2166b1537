"""Damaged batches in this broker's logs: reports of them, and their repair.

`actors/log/checking` finds them when they are read; `scrubbing` reads the logs that nobody else reads. `finds` reports
them, and `mending` replaces them with the batches of a replica in sync. A damaged batch is never sent.
"""
