"""`python -m actors.log.compaction_worker`: one compaction in a process of its own, plan in and result out, pickled.

Compaction decodes and sorts millions of records; in the broker's process it would stand in everybody's way.
The log's folder comes as an open file descriptor: by the time the process runs, the path may be another topic's.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import replace

from actors.log.compaction import compact


def main() -> None:
    os.nice(10)
    plan = pickle.load(sys.stdin.buffer)
    os.fchdir(int(sys.argv[1]))
    pickle.dump(compact(replace(plan, directory=".")), sys.stdout.buffer)


if __name__ == "__main__":
    main()
