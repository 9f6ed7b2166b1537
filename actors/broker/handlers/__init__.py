"""One file for each type of request that a broker answers itself; `registry` is the table of them.

Group requests go to the shards, which answer them by `actors.group_api`.
"""
