"""One client's connection to a broker: bytes become frames, and answers leave in the order of their requests.

`connection` is asyncio's protocol. It knows a frame by its length alone, and gives it to the server, or to the gate of
a peer that has not proved who it is. Each request that wants an answer takes a slot (`slots`). A finished answer waits
for those before it, and large ones are written in pieces as the client takes them (`outgoing`). While too much waits,
nothing is read, so that TCP slows the client down. All parts of a broker know a connection; it knows none of them.
"""
