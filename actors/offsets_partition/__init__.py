"""One partition of a coordinator's topic as an actor: `actor` is the Ray actor, `process` what it runs.

It hosts the shard of any kind of coordinator (`actors.coordinator_kinds`). Today these are groups, whose offsets the
partition holds.
"""
