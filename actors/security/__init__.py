"""Authentication and authorization: pure rules, without clock, randomness, sockets or files."""
