"""The metadata of a cluster, and the rules of placement: groups on partitions, partitions on brokers, brokers on nodes.

    metadata    the cluster's metadata, made of `records`, which are applied in order; `infos` has its parts
    elections   leaders and in-sync sets; `together`: of partitions that are led together (`pairs`)
    assignment  the replicas of new partitions; `spread` and `vacating` plan moves, `reassignment` says when one is done
    hashing     Kafka's hashes: the partition of a group or a key
    nodes       the Ray node of each broker; `executors`: the Ray nodes of Spark's executors

All are pure rules, but `nodes` also asks Ray.
"""
