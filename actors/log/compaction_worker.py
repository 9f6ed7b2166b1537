"""`python -m actors.log.compaction_worker`: one compaction in a process of its own, plan in and result out, pickled.

Compaction decodes and sorts millions of records; in the broker's process it would stand in everybody's way.
"""

from __future__ import annotations

import os
import pickle
import sys

from actors.log.compaction import compact


def main() -> None:
    os.nice(10)
    plan = pickle.load(sys.stdin.buffer)
    pickle.dump(compact(plan), sys.stdout.buffer)


if __name__ == "__main__":
    main()
