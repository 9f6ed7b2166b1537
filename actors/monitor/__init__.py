"""The Monitor: it looks at the cluster every few seconds, remembers what it saw, and shows it.

It follows `__consumer_offsets` as any reader of the log would, so a question about a group wakes no sleeping shard, and
scraping it reaches no broker. One link, to the controller, is its only way to the others. Each look goes as follows:

1. Where partitions begin and end, asked of their leaders in slices (`partitions`).
2. What was committed since the look before: the new records of `__consumer_offsets` (`follower`, `offsets_log`).
3. Lag, in records and in seconds (`timeline`, `lag`). Where the age of a group's next record cannot be told from what
   was seen of the log's growth, the record itself is looked at, a few in each look.
4. The history on disk (`history`), the views (`links/views.py`) and the metrics are made of it.

Parts without clock or I/O: `timeline`, `lag`, `offsets_log`, `partitions`, `metrics`.
"""
