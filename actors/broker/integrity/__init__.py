"""Damaged batches in this broker's logs: reports of them, and their repair.

`actors/log/checking` finds them when they are read; `scrubbing` reads the logs that nobody else reads. A damaged batch
is never sent.
"""
