"""A controller, a broker or a shard as a process of the build that is installed: `build_process.py FOLDER ROLE ...`.

No Ray: the controller's process starts the others with the code behind FOLDER/installed, as it then is. That is a link,
so that another build can be installed while they run, as on a Ray node. Only names that all builds have are used here.
A controller takes lines (`restart N`, `leaders`, `end`) and answers each with one; it says `ready` once all brokers do.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door
from actors.controller.server import ControllerServer
from actors.controller.shard_starts import ShardStarts
from actors.links.control import Stop
from actors.links.operations import HandOver
from actors.links.secret import Secrets
from actors.offsets_partition.process import ShardProcess
from actors.settings import BrokerConfig

SECRET = Secrets(b"k" * 32)
BROKERS = 2
SETTINGS = {
    "broker.session.timeout.ms": "30000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "coterie.spare.shards": "1",
    "coterie.monitor": "false",
}


class Launcher:
    """Starts processes of the build that is installed now, and notes which: FOLDER/processes has a line for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._starts = ShardStarts()
        self._number = 0

    def _start(self, role: str, *arguments: str) -> str:
        self._number += 1
        installed = (self._folder / "installed").resolve()
        name = f"{role}-{arguments[0]}-{installed.name}-{os.getpid()}-{self._number}"
        log = open(self._folder / "logs" / f"{name}.log", "wb")  # noqa: SIM115 - the process has it
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(self._folder), role, *arguments, name],
            env={**os.environ, "PYTHONPATH": str(installed)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        with open(self._folder / "processes", "a") as processes:
            processes.write(f"{process.pid} {role} {arguments[0]} {installed.name}\n")
        return name

    def start_broker(self, broker_id: int) -> None:
        self._start("broker", str(broker_id))

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        self._starts.want(broker_id, count, urgent, here)
        while (waiting := self._starts.next()) is not None:
            self._starts.begun(waiting, self._start("shard", str(waiting)))

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        (self._folder / f"ports-{broker_id}").write_text(json.dumps(dict(ports)))

    def kill_broker(self, broker_id: int) -> None: ...

    def heard(self, broker_id: int) -> None: ...

    def start_monitor(self) -> None: ...

    def move_broker(self, broker_id: int) -> None: ...

    def home_is_gone(self, broker_id: int) -> bool:
        return False

    def node_of(self, broker_id: int) -> str:
        return ""

    def look_at(self, broker_id: int, pid: int, started: int) -> None: ...


def opened_log(path: Path) -> Any:
    """The metadata log, wherever a build has it."""
    try:
        from actors.controller.metadata_log import MetadataLog
    except ImportError:
        from actors.controller.metadata.log import MetadataLog  # type: ignore[no-redef]
    return MetadataLog(path)


async def control(folder: Path, restarted: str) -> None:
    loop, log = asyncio.get_running_loop(), opened_log(folder / "controller" / "metadata.log")
    config = BrokerConfig.from_mapping(SETTINGS)
    server = ControllerServer(log, config, SECRET, Launcher(folder), loop, restarted=bool(int(restarted)))
    port = await server.listen("127.0.0.1")
    (folder / "controller.new").write_text(str(port))
    os.replace(folder / "controller.new", folder / "controller.port")
    ids = list(range(BROKERS))
    if int(restarted):
        server.expect(ids)
    else:
        server.start(ids)
    await until(server.ready)
    say("ready")
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        match line.split():
            case ["restart", broker_id]:
                await restart(server, int(broker_id))
                say("back")
            case ["leaders"]:
                server.elect_preferred()
                leaders = {p.leader for topic in server.metadata.topics.values() for p in topic.partitions}
                say(str(sorted(leaders)))
            case ["end"]:
                server.stopping = True
                for session in list(server.brokers.values()):
                    session.protocol.send(Stop())
                    await session.ended.wait()
                server.close()
                return


async def restart(server: ControllerServer, broker_id: int) -> None:
    """Restart a broker as `Controller.restart_broker` does."""
    epoch, session = server.metadata.brokers[broker_id].epoch, server.brokers[broker_id]
    await session.calls.ask(HandOver(), 30)
    session.protocol.send(Stop())

    def is_back() -> bool:
        broker = server.metadata.brokers[broker_id]
        return broker.alive and broker.epoch > epoch and server.in_sync_everywhere(broker_id)

    await until(is_back)


async def until(condition: Any) -> None:
    """The test has the deadline."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def serve(folder: Path, broker: str, name: str) -> None:
    ports = folder / f"ports-{broker}"
    port = json.loads(ports.read_text())["PLAINTEXT"] if ports.exists() else 0
    spec = BrokerSpec(
        broker_id=int(broker),
        host="127.0.0.1",
        doors=(Door("PLAINTEXT", "127.0.0.1", port, "127.0.0.1"),),
        data_dir=str(folder / f"broker-{broker}"),
        socket_path=str(folder / "s" / broker),
        config=SETTINGS,
    )

    def find_controller() -> tuple[str, int, Secrets]:
        return "127.0.0.1", int((folder / "controller.port").read_text()), SECRET

    server = await BrokerServer.open(spec, find_controller)
    await server.start()
    await server.serve()


async def host(folder: Path, broker: str, name: str) -> None:
    await ShardProcess(str(folder / "s" / broker), name, "tests").run()


def main() -> None:
    folder, role, *arguments = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    roles = {"controller": control, "broker": serve, "shard": host}
    asyncio.run(roles[role](Path(folder), *arguments))


if __name__ == "__main__":
    main()
