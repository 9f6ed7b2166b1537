"""The quotas of clients, and how much of them is used. Without clock and I/O.

A quota is a rate. It belongs to an entity: a user, a client id, both, or an address, each by its name or as the default
of all that have none of their own (KIP-546). `entities` finds the most specific quota, which applies to a client.
`rates` has the two ways to measure: bytes by a window of samples (KIP-13), changes and connections by tokens (KIP-599,
KIP-612).
"""
