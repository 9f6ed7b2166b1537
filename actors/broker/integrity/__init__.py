"""Damaged batches of this broker's logs: who is told of them, and what becomes of them.

`actors/log/checking` finds them when they are read. Nothing is given out that was found damaged.
"""
