"""How groups change between the classic protocol and the consumer protocol (KIP-848), while they have members or none.

A group that has no members becomes one of the other type when somebody joins by the other protocol; its offsets stay.

Both types stand below this room and do not know each other. What they meet of one another's is handed here: a classic
request for a consumer group is a visit (`GroupRuntime.visit`), and becomes an operation on that group.
"""
