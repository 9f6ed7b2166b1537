"""The Monitor: a process that looks at its cluster every few seconds, remembers what it saw, and shows it.

**A process of its own.** An operator's questions cost time: thousands of groups and partitions have to be gone through,
for every page and every scrape. A broker has none to give: its loop answers heartbeats. So brokers and shards only
count, and remember a bounded number of happenings; all else is done here. A page is made from this process's memory and
never reaches a broker. If the Monitor is slow or dies, no client notices.

**Its start.** The controller's launcher starts it on the controller's node, once all brokers serve. It owns nothing
that an epoch would have to guard. If its process ends, its link ends with it, and the controller starts another; if
that dies at once, the pauses between starts grow. A controller that is restarted itself waits for the Monitor of its
predecessor. A Monitor that finds no controller for half a minute ends. `coterie.monitor=false`: none.

**Its questions.** It has one link, to the controller, in the role `monitor`: it proves that it knows the cluster's
secret, in TLS where brokers do. It needs no listener, no user and no ACL. By `LookAround` it is told what the
controller and all brokers have counted, and what has happened since the number that it names (`links/observations.py`).
A broker that does not answer within two seconds is left out and named. By `ForBroker` it reads where partitions begin
and end, and the records of `__consumer_offsets` (`links/reading.py`). So it knows the groups as their log has them, and
wakes no shard that sleeps. The controller lets pass these questions alone (`controller/allowed.py`): a Monitor changes
nothing.

**Questions to it.** Commands and consoles in other processes ask the controller's actor (`Cluster.view`), which passes
the question on over the same link, and the answer back. Questions and answers are those of `links/views.py`.

**Numbers.** Every process numbers what has happened to it, from 1. A Monitor names the last number it has of each, and
is told the next ones in order. Each keeps the last 4,096; if the Monitor was away for longer, it is told how many it
has missed. A number means something only with the run of its process: of another run, everything is new.

**A look.** First the counts and the happenings (`observed`). Then where partitions begin and end, asked of their
leaders in slices (`looks`, `partitions`), and what was committed since the look before (`follower`, `offsets_log`).
From both follows lag, in records and in seconds (`timeline`, `lag`): where the age of a group's next record cannot be
told from how the log grew, the header of its batch is looked at, and where that is too wide, the record itself: of
headers 2,000 in each look, of records 32. The findings of a look go to the history on disk (`history`, with `curves`
and the files `history_*`; in a thread: `historian`), and views (`answers`, `group_views`, `topic_views`) and metrics
(`metric_table`, `metric_rows`, `broker_metrics`, `pool_metrics`, `exposition`) are made of them.

**Trust.** Clients choose offsets, times, metadata and names. A value that cannot be stored, sent or shown costs its own
row: no other group's, and no look.

Files besides: `actor` is the Ray shell, `server` finds the controller and has `work` look, `cluster_link` is the link.
Without clock or I/O are `timeline`, `lag`, `partitions`, `offsets_log`, `memory`, `observed`, `curves` and all that
makes views.
"""
