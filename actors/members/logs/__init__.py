"""The lines that the members of a pool print and log, without access to their nodes.

`ring` keeps the last lines of a member's process. `capture` copies the handler's output there; the output still goes to
its usual place, too. A member sends its lines only when the pool asks, over their existing connection; a member that
ends in good order sends its last lines unasked. `journal` is the pool's own memory: the lines that it was sent, and its
own actions on members. `gathering` asks the members and puts all lines together.
"""
