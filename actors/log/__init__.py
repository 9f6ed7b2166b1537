"""Partition logs on disk: segments, indexes, recovery, retention, compaction, data directories.

Synchronous code without sockets, event loops, Ray or clocks: the owner passes in `now_ms` and the file writer, and runs
long jobs (flush, compaction, removal of files) in other threads or processes. Only one thread calls a log.
"""
