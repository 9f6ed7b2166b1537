"""Three controllers that keep one log, on one loop, over real sockets and files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.quorum_log import QuorumLog, found, new_cluster
from actors.controller.metadata.voter_file import open_voter_file
from actors.controller.new_secret import found_in_files
from actors.controller.node import ControllerNode
from actors.controller.voting import Voting
from actors.links.secret import Marks, Secrets, read_secrets
from actors.quorum.elections import Tuning
from actors.runtime.environment import REAL, new_uuid
from actors.runtime.private import write_private
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from tests.support.controller_world import Launcher
from tests.support.runtime_helpers import SECRET, until

_SETTINGS = {"broker.session.timeout.ms": "60000", "coterie.monitor": "false"}


class Controllers:
    """The nodes by their ids. One that does not run is not here."""

    def __init__(self, path: Path, numbers: Sequence[int], election_s: float) -> None:
        self.path = path
        self._election_s = election_s
        self.numbers = numbers
        self.nodes: dict[int, ControllerNode] = {}
        self.logs: dict[int, QuorumLog] = {}
        self._founded = False
        self.found_by_name = {numbers[0]}
        """Those whose addresses others can find out without the metadata."""

    async def start(self, number: int) -> None:
        """Start a node on its log, at any free port."""
        path = self.secret_file(number)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, SECRET.current.hex())
        loop, in_force = asyncio.get_running_loop(), InForce(BrokerConfig.from_mapping(_SETTINGS), read_secrets(path))
        file = open_voter_file(self.path / f"controller-{number}" / "metadata.log", lambda: new_uuid(REAL.chance).hex)
        if number == self.numbers[0] and not self._founded:
            found(file, number, new_cluster())
            self._founded = True
        voting = Voting(
            *(in_force, loop, REAL.chance),
            log=lambda: log,
            seed=self._seed,
            wanted=self.numbers,
            registered=lambda controller: node.registered(controller),
            gone=lambda controller: node.gone(controller),
            learn=lambda marks: node.learn(marks),
        )
        log = QuorumLog(
            *(file, number, Tuning(lambda: REAL.chance.uniform(0, 1), self._election_s), time.monotonic, voting.send),
            changed=lambda: _soon(loop, node),
            peers=self.numbers,
        )
        launcher = Launcher()

        async def find(marks: Marks) -> Secrets:
            return found_in_files(path, in_force.secrets, marks, ours=True)

        def serve() -> ActiveController:
            return ActiveController(log, in_force, launcher, loop, others=voting)

        node = ControllerNode(log, in_force, loop, serve, voting, find=find)
        await node.listen("127.0.0.1")
        self.nodes[number], self.logs[number] = node, log

    def secret_file(self, number: int) -> Path:
        """The cluster's secret on a controller's own node."""
        return self.path / f"controller-{number}" / "secret"

    def _seed(self, number: int) -> tuple[str, int] | None:
        node = self.nodes.get(number)
        return node.address if node is not None and number in self.found_by_name else None

    def stop(self, number: int) -> None:
        self.logs.pop(number)
        self.nodes.pop(number).close()

    @property
    def leading(self) -> list[int]:
        """Those that are the controller, as far as they know."""
        return [number for number, node in self.nodes.items() if node.server is not None]

    async def led(self) -> int:
        """The node that leads, once there is one alone, and its epoch has begun."""
        await until(lambda: len(self.leading) == 1 and not self._behind(), what="led")
        return self.leading[0]

    def _behind(self) -> list[int]:
        newest = max(log.decided.version for log in self.logs.values())
        return [number for number, log in self.logs.items() if log.committed.version < newest]

    async def all_vote(self) -> None:
        await until(
            lambda: all({voter.id for voter in log.voters} == set(self.numbers) for log in self.logs.values()),
            what="a vote for each",
        )

    def metadata(self, number: int) -> ClusterMetadata:
        return self.logs[number].committed


def _soon(loop: asyncio.AbstractEventLoop, node: ControllerNode) -> None:
    loop.call_soon(node.look)


@asynccontextmanager
async def controllers(
    path: Path, numbers: Sequence[int] = (0, 1, 2), election_s: float = 1.0
) -> AsyncIterator[Controllers]:
    """Three that run and have a vote. With a longer election timeout, one leads on though the machine is busy."""
    world = Controllers(path, numbers, election_s)
    try:
        for number in numbers:
            await world.start(number)
        await world.all_vote()
        yield world
    finally:
        for node in world.nodes.values():
            node.close()
