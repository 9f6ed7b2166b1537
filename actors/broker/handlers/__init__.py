"""One file for each type of request that a broker answers itself; `registry` is the table of them.

What concerns groups goes to their shards and stands in `actors.group_api`.
"""
