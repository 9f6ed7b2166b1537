"""Damaged batches of this broker's logs: reports of them, and their mending.

`actors/log/checking` finds them when they are read. Nothing is given out that was found damaged.
"""
