"""Partition logs on disk: record batches, segments, indexes, retention, compaction, data directories.

Synchronous code without sockets, event loops, Ray or clocks: the owner passes `now_ms` and the writer of files in, and
runs long jobs (flush, compaction, removal of files) wherever it likes. One log has one calling thread.
"""
