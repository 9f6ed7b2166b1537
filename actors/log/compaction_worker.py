"""`python -m actors.log.compaction_worker`: one compaction in a process of its own; plan and result are pickled.

Compaction decodes and sorts millions of records, which would hold up a broker's other work. The log's folder comes as
an open file descriptor, because its path may be another topic's by the time the process runs.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import replace
from typing import Final

from actors.log.compaction import compact
from actors.log.files import REAL_WRITER

_NICENESS: Final = 10


def main() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    plan = pickle.load(sys.stdin.buffer)
    os.fchdir(int(sys.argv[1]))
    pickle.dump(compact(replace(plan, directory="."), REAL_WRITER), sys.stdout.buffer)


if __name__ == "__main__":
    main()
