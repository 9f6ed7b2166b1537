"""One file for each type of request that a broker answers itself; `registry` is the table of them.

Requests of groups go to their shards; they are in `actors.group_api`.
"""
