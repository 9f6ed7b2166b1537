"""Requests about groups, as far as the broker has a part in them: it judges them, cuts them, and merges the answers.

`guard` is asked for each request about one group where ACLs are checked. `offset_commit`, `offset_fetch` and
`offset_delete` are the requests that name topics, too, `whole_groups` those that name groups or mean all, and
`consumer_groups` those of the consumer protocol. Each has a `cut`: from a request that was decoded, to what shards are
asked (`cutting`). A frame is decoded once, by the guard or by the front door, or not at all.
"""
