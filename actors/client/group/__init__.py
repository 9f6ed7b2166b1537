"""A member of a consumer group, as a state machine without I/O, and the loop that drives it.

A member looks its coordinator up, joins, gets its share in a rebalance, and beats until it leaves or is told of the
next rebalance (KIP-62: beats are independent of polls; KIP-345: static members; KIP-429: cooperative rebalances).
`membership` holds the states and takes events: what time it is, an answer, a wish of the user. It returns effects:
requests to send, callbacks to run. `driver` does them, and hands in what comes of them. `answers` has a method for
each response, `lookup` finds the coordinator, `liveness` keeps the time of beats and polls, `leader_assignment` does
what falls to the leader of a generation, `assignors` the assignments themselves, `offsets` commits and fetches.
"""
