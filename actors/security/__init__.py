"""Authentication and authorization: pure rules, without clock, chance, socket or file."""
