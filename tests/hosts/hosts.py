"""Hosts on one machine, with a network between them.

    with Hosts() as hosts:
        one, two = hosts.add(), hosts.add()
        one.start_ray()
        two.start_ray(one, labels={"coterie.io/node": "disk-2"})
        hosts.network.mute(two.name)

Several may stand side by side: each has a network, folders and namespaces of its own.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.hosts.host import Host
from tests.hosts.network import Network
from tests.hosts.space import ROOT


class Hosts:
    """All of it goes with the `with` block: processes, links, mounts and files."""

    def __init__(self, code: Path = ROOT) -> None:
        self._code = code
        self._all: dict[str, Host] = {}
        self._numbers = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # The first folder has the disks. The second one is empty: each host mounts its own disk there. Its path is
            # short, for Ray has sockets below it.
            self._files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts-")))
            self._disk = Path(tempfile.mkdtemp(prefix="h", dir="/tmp"))
            stack.callback(self._disk.rmdir)
            self.network = Network()
            stack.callback(self.network.end)
            stack.callback(self._end_all)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _end_all(self) -> None:
        with ExitStack() as stack:
            for host in self._all.values():
                stack.callback(host.end)

    def add(self, name: str | None = None) -> Host:
        """One more host, with an empty disk. It knows the others, and they know it."""
        number = self.free_number()
        name = name or f"host{number}"
        assert name not in self._all, f"{name} is there"
        host = Host(name, self.network, number, self._files / name, self._disk, self._code)
        self._all[name] = host
        return host

    def remove(self, host: Host) -> None:
        """A host is gone for good, with its disk."""
        host.end()
        shutil.rmtree(host.files)
        del self._all[host.name]

    def free_number(self) -> int:
        """The number of an address that no host has had."""
        self._numbers += 1
        return self._numbers

    def __getitem__(self, name: str) -> Host:
        return self._all[name]
