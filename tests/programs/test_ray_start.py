"""An embedded Ray that does not come up, as on a machine too busy for its half minute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.compat.peers import ROOT

FAILING = """
import sys
from pathlib import Path

import psutil
from ray._private import services

from actors.cluster import WARM
from actors.runtime import ray_runtime

family = []

def hangs(*arguments):
    family.extend(psutil.Process().children(recursive=True))
    raise TimeoutError("it hangs")

services.get_node = hangs  # the last step of Ray's start, when all its processes run
try:
    ray_runtime.start_embedded(Path(sys.argv[1]), warm=WARM, num_cpus=1, object_store_memory=80 << 20)
except ray_runtime.ClusterError as error:
    print(error)
print(len(family) > 2, psutil.wait_procs(family, timeout=30)[1])
"""


def test_what_has_come_up_of_a_ray_that_fails_to_start_is_ended(tmp_path: Path) -> None:
    """Its processes stayed until the program's end, and made the next start slower still."""
    command = [sys.executable, "-c", FAILING, str(tmp_path / "ray-token")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    refused, ended = done.stdout.splitlines()
    assert refused.startswith("Ray does not start: it hangs;"), done.stderr
    assert ended == "True []"
