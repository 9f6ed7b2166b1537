"""The controller: one actor that keeps the cluster's metadata, decides, and starts brokers and shards.

`actor` is the Ray actor, and `server` the controller that it runs. `decisions` has the rules, as pure functions of the
metadata; `metadata` commits changes, and sends them to brokers; `launcher` starts processes on Ray; a `session` is a
connected broker (`sessions`). `preparation` runs in the driver's process before the actor starts.
"""
