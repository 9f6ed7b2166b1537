"""Members for Spark and Ray Data: they own partitions and commit, and somebody else reads the records.

A range member (`member`) takes part in a group, says from which offset each of its partitions goes on, and commits what
was done with a batch. It has no handler and reads no record. A batch has a fixed range of offsets for each partition;
Spark's executors, or Ray Data's tasks, read it.

**The fence.** Between the begin of a batch and its commit another member may get a partition. So each assignment of a
partition has a token of its own, a batch keeps the tokens of its partitions, and only what was begun and finished under
one token is committed. The coordinator checks member and generation of each commit besides.

    life        the member's states, and what follows from a commit that fails, as tables
    commands    what other threads want of the member's thread
    positions   where partitions go on; topics that were deleted and created again
    group       questions about a whole group, and the values that members take and return

    ray_data        `read_group`, what programs call: one batch, to the present ends
    ray_follow      the same without an end, batch after batch
    ray_reader      the member behind both
    ray_datasource  a batch as a Ray Data dataset
    reads           the values that these hand one another

`spark_bridge/members.py` starts range members for Spark.
"""
