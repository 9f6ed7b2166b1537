"""Kafka's protocol, for servers and clients alike: messages, framing, error codes. No sockets, brokers or groups."""
