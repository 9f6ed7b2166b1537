"""A broker: the Ray actor that owns logs, speaks Kafka's protocol, and relays requests of groups to its shards.

`actor` is the Ray actor and `server` what it runs. `handlers` has a file for each request type, `shards` the processes
that coordinate groups, `replication` the copies on other brokers. All of them know the broker by `context` alone.
"""
