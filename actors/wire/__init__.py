"""Kafka's protocol for servers and clients alike: codec, framing, listener, relay. Knows no broker and no group."""
