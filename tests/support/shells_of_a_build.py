"""Actors' pickles, which Ray brings to processes of another build: `shells_of_a_build.py dump|load FILE FOLDER`.

An actor's class is pickled as it is in the process that starts it, with the actor's arguments. All modules that it
names are those that are installed where the actor's process runs. `dump` is for the build before versions.
"""

from __future__ import annotations

import sys
from inspect import unwrap
from pathlib import Path
from typing import Any

from ray import cloudpickle

STARTED_BY = "0.0.9"


def dump(file: Path, folder: Path) -> None:
    from actors.broker.actor import Broker
    from actors.broker.spec import BrokerSpec, Door
    from actors.controller.actor import Controller
    from actors.members.deployment.supervisor_actor import SupervisorSpec
    from actors.monitor.actor import Monitor
    from actors.monitor.spec import MonitorSpec
    from actors.offsets_partition.actor import OffsetsPartition
    from actors.runtime.logs import LogPlace

    logs, version = LogPlace(str(folder / "logs"), "c"), STARTED_BY
    door = Door("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1")
    broker = BrokerSpec(2, "127.0.0.1", (door,), str(folder / "broker-2"), "/run/2.sock", {"max.connections": "5"})
    monitor = MonitorSpec("c", "coterie-c", str(folder), "/secret", {})
    started: list[tuple[Any, tuple[Any, ...]]] = [
        (Broker, (broker, "coterie-c", logs, version)),
        (OffsetsPartition, ("/run/2.sock", "shard-2-7-1", logs, 2, version)),
        (Monitor, (monitor, logs, version)),
    ]
    started.append((Controller, ()))
    shells = [(shell.__ray_metadata__.modified_class, told) for shell, told in started]
    supervisor = SupervisorSpec("pool", "c", "h:1", {"security_protocol": "SSL"}, "before", True)
    file.write_bytes(cloudpickle.dumps((shells, supervisor)))


def load(file: Path, folder: Path) -> None:
    from actors.broker.spec import BrokerSpec
    from actors.links import versions

    shells, supervisor = cloudpickle.loads(file.read_bytes())
    (broker, told), *others, (controller, _) = shells
    made = broker(*told)  # as Ray makes it
    assert type(made._spec) is BrokerSpec
    assert made._spec.at_ports({}).doors[0].advertised_host == "127.0.0.1"
    assert (made._spec.broker_id, made._spec.config, made._namespace) == (2, {"max.connections": "5"}, "coterie-c")
    for shell, arguments in others:
        shell(*arguments)
    assert (supervisor.security, supervisor.after) == ({"security_protocol": "SSL"}, "before")
    log = unwrap(controller._begin).__globals__["MetadataLog"](folder / "controller" / "metadata.log")
    assert log.metadata is log.decided
    log.close()
    sys.stdout.write(versions.__name__)


if __name__ == "__main__":
    {"dump": dump, "load": load}[sys.argv[1]](*map(Path, sys.argv[2:]))
