"""The lines that the members of a pool print and log, without a look at their nodes.

`ring` keeps the last lines of a member's process, `capture` puts there what its handler writes, beside where it went
before. Nothing is sent unless the pool asks, over the connection it has anyway; a member that ends in good order sends
its last lines unasked. `journal` is the pool's own memory: what it has been sent, and what it has done with its
members. `gathering` asks the members and puts all of it together.
"""
