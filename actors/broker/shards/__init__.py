"""The processes in which a broker's groups are coordinated: started, loaded, asked, and replaced when they die.

`hub` puts the parts together and is all that the broker sees. `processes` has the processes, spares among them, and
`link` one of them; `partitions` says which of them has which partition. `loading` sends a log, `relaying` requests and
answers, `topics` the news of topics, and `appending` writes what a shard decides. `readiness` says whether a partition
can be asked, and keeps in `parking` what waits until it can.
"""
