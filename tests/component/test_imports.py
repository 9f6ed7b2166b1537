"""Modules that an import pulls in, seen in a fresh interpreter; the linter's contracts see only our own imports."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.one_broker import create, world

PROBE = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
    importlib.import_module(found.name)
heavy = sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[2].split(",")))
sys.exit(f"{sys.argv[1]} pulls in {heavy}" if heavy else 0)
"""


@pytest.mark.parametrize(
    "package",
    [
        "actors.client",
        "coterie",
        "actors.wire",
        "actors.log",
        "actors.coordinator",
        "actors.broker.handlers",
        "actors.settings",
        "actors.cli.main",
    ],
)
def test_importing_it_does_not_import_ray_or_spark(package: str) -> None:
    command = [sys.executable, "-c", PROBE, package, "ray,pyspark,raydp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "module",
    [
        "actors.offsets_partition.process",
        "actors.broker.server",
        "actors.controller.active",
        "actors.members.pools.handler_member",
        "actors.members.ranges.member",
    ],
)
def test_a_process_imports_nothing_that_only_columns_and_terminals_need(module: str) -> None:
    """Arrow and NumPy alone were half of what a ConsumerActor took to start, and 40 MiB of it."""
    heavy = "numpy,pyarrow,pandas,rich,click,typer"
    command = [sys.executable, "-c", PROBE, module, heavy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "module",
    [
        "actors.broker.actor",
        "actors.broker.server",
        "actors.offsets_partition.actor",
        "actors.offsets_partition.process",
        "actors.controller.actor",
        "actors.controller.active",
        "actors.members.pools.handler_member",
        "actors.members.ranges.member",
        "actors.client",
        "actors.runtime.fork_server",
        "placement.nodes",
    ],
)
def test_only_a_monitor_and_a_console_import_what_serves_metrics_and_pages(module: str) -> None:
    """All processes have the modules that the fork server has imported (controller/at_ray.py, WARM)."""
    heavy = "prometheus_client,starlette,uvicorn,sqlite3"
    command = [sys.executable, "-c", PROBE, module, heavy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_fork_server_imports_for_all_serves_neither_metrics_nor_pages() -> None:
    code = """
import importlib, sys
from actors.cluster import WARM
for each in WARM:
    importlib.import_module(each)
sys.exit(str(sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split(",")))))
"""
    command = [sys.executable, "-c", code, "prometheus_client,starlette,uvicorn,sqlite3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip().endswith("[]"), done.stderr


def test_a_monitor_that_nobody_scrapes_does_not_import_what_serves_metrics() -> None:
    probe = "import sys, actors.monitor.server; sys.exit('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_driver_does_not_import_what_brokers_and_controllers_work_with() -> None:
    """It took a sixth of a second of each start."""
    probe = "import sys, actors.cluster; print({'actors.controller.active', 'aiokafka'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


def test_a_program_that_only_starts_a_cluster_is_spared_arrow_and_others_have_it() -> None:
    code = """
import sys
from actors.runtime.ray_runtime import allow_arrow, without_arrow
with without_arrow():
    try:
        import pyarrow
    except ModuleNotFoundError:
        print("without")
    print("left", "pyarrow" in sys.modules)
    allow_arrow()
    print("left", "pyarrow" in sys.modules)
import pyarrow
with without_arrow():
    import pyarrow
    print("with", pyarrow.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["without", "left True", "left False", "with pyarrow"], done.stderr


def test_a_cluster_that_has_pools_to_bring_back_can_import_what_does_so() -> None:
    """`coterie up` did not start any more when it had."""
    code = """
from actors.runtime.ray_runtime import allow_arrow, without_arrow
with without_arrow():
    allow_arrow()
    import actors.members.deployment.at_home
import pyarrow
print(pyarrow.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("pyarrow", "")


def test_nobody_reads_the_long_table_who_needs_no_key_of_it() -> None:
    probe = (
        "import sys; import actors.offsets_partition.process; assert 'actors.settings' not in sys.modules\n"
        "from actors.settings import BrokerConfig, known, topic_values\n"
        "topic_values({'retention.ms': '5'}, BrokerConfig.from_mapping({'num.partitions': '3'}))\n"
        "assert known._kafka_keys.cache_info().currsize == 0"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_module_has_its_floor_in_the_house() -> None:
    root = Path(__file__).resolve().parents[2]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = next(contract for contract in contracts if contract["id"] == "house")["layers"]
    placed = set(re.findall(r"actors\.(\w+)", " ".join(floors)))
    there = {
        path.stem for path in (root / "actors").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    homeless = there - {"__init__"} - placed
    assert not homeless, "give them a floor: in the contract `house` of pyproject.toml and in docs/architecture.md"


async def test_a_program_that_produces_and_reads_imports_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
import coterie
servers = sys.argv[1]
with coterie.Producer(bootstrap_servers=servers) as producer:
    producer.send("t", b"value", partition=0).get()
with coterie.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
    consumer.assign([coterie.TopicPartition("t", 0)])
    print([record.value for record in consumer.poll(30_000)[coterie.TopicPartition("t", 0)]])
print(sorted({"ray", "raydp", "pyspark", "pyarrow", "pandas", "numpy"} & sys.modules.keys()))
"""
    async with world(tmp_path) as w:
        client = await w.client()
        await client.ask(*create("t"))
        servers = f"127.0.0.1:{w.server.socket_server.ports['PLAINTEXT']}"
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, servers), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, errors = await done.communicate()
    assert (out.decode().splitlines(), errors) == (["[b'value']", "[]"], b"")
