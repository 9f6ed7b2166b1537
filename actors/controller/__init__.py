"""The controller: one actor that keeps the cluster's metadata, decides, and starts brokers and shards.

`actor` is the Ray actor, `server` what it runs, `decisions` the rules as pure functions over the metadata,
`metadata_log` how decisions survive, `launcher` how processes are started on Ray.
"""
