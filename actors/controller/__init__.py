"""The controller: one actor that keeps the cluster's metadata, decides, and starts brokers and shards.

`actor` is the Ray actor and `server` what it runs. `decisions` has the rules, as pure functions of the metadata;
`metadata` commits what was decided, and tells brokers; `launcher` starts processes on Ray; `sessions` has a connected
broker. `preparation` runs in the driver's process before the actor is started.
"""
