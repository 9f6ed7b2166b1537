"""A broker: the Ray actor that owns logs, speaks Kafka's protocol, and relays requests of groups to its shards.

`actor` is the Ray actor, and `server` the broker that it runs. `connections` has the connections of clients, and
`entrance` the way from a socket to a request: listening, TLS, logins, limits. `handlers` has a file for each request
type, `coordinators` the processes that coordinate groups, `replication` the copies on other brokers, `beside` the
guests beside logs, and `integrity` the repair of damaged batches. All of them know the broker only through `context`.
"""
