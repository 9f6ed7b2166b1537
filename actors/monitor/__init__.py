"""The Monitor: a process that inspects its cluster every few seconds, keeps the results, and shows them.

**A process of its own.** An operator's questions cost time: every page and every scrape goes through thousands of
groups and partitions. A broker cannot spend that time, because its loop answers heartbeats. So brokers and shards only
count, and keep a bounded number of events; the Monitor does the rest. A page is made from the Monitor's memory, without
a request to a broker. If the Monitor is slow or dies, no client notices.

**Its start.** The controller's launcher starts it on the controller's node, once all brokers serve, or half a minute
after the controller. It owns nothing that would need an epoch. If its process ends, its link ends, too, and the
controller starts another Monitor; if that dies at once, the pauses between starts grow. A restarted controller waits
for the Monitor of its predecessor. A Monitor that finds no controller for half a minute ends. With
`coterie.monitor=false` there is none.

**Requests of the Monitor.** It has one link, to the controller, in the role `monitor`. It proves that it knows the
cluster's secret, over TLS if brokers use TLS. It needs no listener, no user and no ACL. `LookAround` returns the counts
of the controller and all brokers, and their events since a given number (`links/observations.py`). A broker that does
not answer within two seconds is left out and named. `ForBroker` reads the start and end offsets of partitions, and the
records of `__consumer_offsets` (`links/reading.py`). So the Monitor knows the groups from their log, and wakes no shard
that sleeps. The controller allows only these requests (`controller/allowed.py`): a Monitor changes nothing.

**Requests to the Monitor.** Commands and consoles in other processes ask the controller's actor (`Cluster.view`), which
passes the request on over the same link, and the answer back. `links/views.py` has the requests and answers.

**Numbers.** Every process numbers its events, from 1. The Monitor names the last number that it has from each process,
and gets the following events in order. A process keeps its last 4,096 events; if the Monitor was away for longer, it is
told how many it has missed. A number is valid only for one run of a process: after a restart, all events are new.

**A look** is one inspection. It begins with the counts and the events (`observed`). Then it asks the leaders, in
slices, for the start and end offsets of partitions (`looks`, `partitions`), and reads the commits since the last look
(`follower`, `offsets_log`). From both follows lag, in records and in seconds (`timeline`, `lag`). If the growth of the
log does not show the age of a group's next record, the look reads the header of its batch, and if the header's times
are too far apart, the record itself: at most 2,000 headers and 32 records in each look. The results go to the history
on disk (`history`, with `curves` and the files `history_*`; in a thread: `historian`), and views (`answers`,
`group_views`, `topic_views`) and metrics (`metric_table`, `metric_rows`, `broker_metrics`, `pool_metrics`,
`exposition`) are made from them.

**Trust.** Clients choose offsets, times, metadata and names. A value that cannot be stored, sent or shown removes only
its own row: no other group's row, and no look, fails.

Other files: `actor` is the Ray shell, `server` finds the controller and has `work` look, `cluster_link` is the link.
Without clock or I/O are `timeline`, `lag`, `partitions`, `offsets_log`, `memory`, `observed`, `curves` and all that
makes views.
"""
