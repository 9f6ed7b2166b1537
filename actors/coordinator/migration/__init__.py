"""The change of groups between the classic protocol and the consumer protocol (KIP-848), with members or without.

A group without members changes its type when a member joins by the other protocol; its offsets stay.

Both types stand below this room and do not know each other. This room handles the points where they meet: a classic
request for a consumer group is a visit (`GroupRuntime.visit`), and becomes an operation on that group.
"""
