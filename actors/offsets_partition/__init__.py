"""One partition of `__consumer_offsets` as an actor: `actor` is the Ray actor, `process` what it runs.

It hosts the coordinator shard of the groups whose offsets that partition holds (`actors.coordinator`).
"""
