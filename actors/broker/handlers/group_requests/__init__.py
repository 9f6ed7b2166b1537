"""The broker's part in group requests: it checks rights, splits requests by shard, and merges the answers.

If ACLs are checked, `guard` checks each request about one group. `offset_commit`, `offset_fetch` and `offset_delete`
are the requests that also name topics, `whole_groups` those that name several groups or mean all, and `consumer_groups`
those of the consumer protocol. Each has a function `cut`, which splits a decoded request into the requests for the
shards (`cutting`). A frame is decoded at most once, by the guard or by `entrance/routing`.
"""
