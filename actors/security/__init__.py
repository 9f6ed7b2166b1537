"""Who somebody is, and what he may do: pure rules, without clock, chance, socket or file."""
