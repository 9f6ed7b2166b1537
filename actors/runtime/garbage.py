"""The garbage collector of a process that serves."""

import gc

_THRESHOLDS = 5_000, 5, 4_000
"""New objects until the young are looked at, how often until the middle ones are, and how often that until all are."""


def collect_seldom() -> None:
    """Have the collector run seldom and briefly, and leave out what is there already.

    A server's requests make and drop many small containers and hardly ever a cycle: at the default thresholds the
    collector took two thirds of the time of a commit, for it went through all objects again and again. The fewer new
    ones it looks at together, the shorter a pause: a consumer group that grew held up its shard for 0.3 s with a
    million at a time, and for up to 56 ms with a hundred thousand.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
