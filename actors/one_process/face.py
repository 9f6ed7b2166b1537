"""The calls of tests: a cluster, its topics, and its faults, for synchronous and for asynchronous programs.

Both are thin: they make an order of a call and have the child carry it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from actors.one_process import arguments, orders
from actors.one_process.starting import ClusterProcess

Settings: TypeAlias = Mapping[str, str | int | float | bool]
"""Settings of brokers or topics, by their names in Kafka."""
BROKERS_MAX: Final = 1000
_REPLICAS_MAX: Final = (1 << 15) - 1
_BY_DEFAULT: Final = -1
START_SECONDS: Final = 30.0
_topics = count(1)


def new_topic() -> str:
    """A name that no other topic of this process has."""
    return f"topic-{next(_topics)}"


def _creation(name: str | None, partitions: int, replicas: int, settings: Settings | None) -> orders.CreateTopic:
    return orders.CreateTopic(
        new_topic() if name is None else arguments.text("name", name),
        arguments.whole("partitions", partitions, _BY_DEFAULT),
        arguments.whole("replicas", replicas, _BY_DEFAULT, _REPLICAS_MAX),
        arguments.settings("settings", settings),
    )


def _group(group: str) -> str:
    return arguments.text("group", group)


class Cluster:
    """A cluster that runs. Its methods raise OrderError, with the reason."""

    def __init__(self, process: ClusterProcess) -> None:
        self._process = process

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients: `host:port`, several with commas between them."""
        return self._process.bootstrap_servers

    @property
    def pid(self) -> int:
        """Of the child process that has all of it."""
        return self._process.pid

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        replicas: int = 1,
        settings: Settings | None = None,
    ) -> str:
        """Create a topic; its name, which is a new one if none is given."""
        order = _creation(name, partitions, replicas, settings)
        self._process.ask(order)
        return order.name

    def kill_coordinator(self, group: str) -> None:
        """Kill the coordinator of a group. Another process takes its place, and its members stay members."""
        self._process.ask(orders.KillCoordinator(_group(group)))

    def expel(self, group: str, member: str) -> str:
        """Remove a member from its group; its member id. `member` is that, its group.instance.id or its client id.

        The others rebalance. The expelled one hears of it when it asks next, and comes again as another member.
        """
        return self._process.ask(orders.Expel(_group(group), arguments.text("member", member)))

    def lose_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the broker that leads a partition; the id of the next leader.

        The broker starts again, which is waited for. Without another replica in sync it is the next leader itself.
        """
        order = orders.LoseLeader(arguments.text("topic", topic), arguments.whole("partition", partition, 0))
        return int(self._process.ask(order))

    def delay(self, api: str, seconds: float, times: int = 1) -> None:
        """Have the next answers of an API, such as `Fetch`, leave so much later. The requests are handled at once."""
        wait, count = arguments.seconds("seconds", seconds), arguments.whole("times", times, 1)
        self._process.ask(orders.Delay(arguments.text("api", api), wait, count))

    def refuse(self, api: str, error: str, times: int = 1) -> None:
        """Answer the next requests of an API with an error, such as `NOT_COORDINATOR`. They are not handled."""
        name, count = arguments.text("error", error), arguments.whole("times", times, 1)
        self._process.ask(orders.Refuse(arguments.text("api", api), name, count))

    def leave_alone(self) -> int:
        """Delay and refuse no more; to how many requests that has happened since the cluster's start."""
        return int(self._process.ask(orders.LeaveAlone()))

    def advance(self, seconds: float) -> None:
        """Let so much time pass for the cluster: all that is due in it happens. Clients have their own time."""
        self._process.ask(orders.MoveClock(arguments.seconds("seconds", seconds)))

    def close(self) -> None:
        """End it, and remove its files."""
        self._process.close()


class AsyncCluster:
    """A cluster that runs, for asyncio. Its methods are those of `Cluster`, as coroutines."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return self._cluster.bootstrap_servers

    @property
    def pid(self) -> int:
        """Of the child process that has all of it."""
        return self._cluster.pid

    async def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        replicas: int = 1,
        settings: Settings | None = None,
    ) -> str:
        """See `Cluster.create_topic`."""
        return await asyncio.to_thread(self._cluster.create_topic, name, partitions, replicas, settings)

    async def kill_coordinator(self, group: str) -> None:
        """See `Cluster.kill_coordinator`."""
        await asyncio.to_thread(self._cluster.kill_coordinator, group)

    async def expel(self, group: str, member: str) -> str:
        """See `Cluster.expel`."""
        return await asyncio.to_thread(self._cluster.expel, group, member)

    async def lose_leader(self, topic: str, partition: int = 0) -> int:
        """See `Cluster.lose_leader`."""
        return await asyncio.to_thread(self._cluster.lose_leader, topic, partition)

    async def delay(self, api: str, seconds: float, times: int = 1) -> None:
        """See `Cluster.delay`."""
        await asyncio.to_thread(self._cluster.delay, api, seconds, times)

    async def refuse(self, api: str, error: str, times: int = 1) -> None:
        """See `Cluster.refuse`."""
        await asyncio.to_thread(self._cluster.refuse, api, error, times)

    async def leave_alone(self) -> int:
        """See `Cluster.leave_alone`."""
        return await asyncio.to_thread(self._cluster.leave_alone)

    async def advance(self, seconds: float) -> None:
        """See `Cluster.advance`."""
        await asyncio.to_thread(self._cluster.advance, seconds)

    async def close(self) -> None:
        """See `Cluster.close`."""
        await asyncio.to_thread(self._cluster.close)


@dataclass(slots=True)
class Starting:
    """A cluster that is started by `with` or `async with`, or by `start`; it ends with the block, or by `close`."""

    brokers: int
    settings: Mapping[str, str]
    start_s: float
    within: Path | None
    _open: list[Cluster] = field(default_factory=list)

    def start(self) -> Cluster:
        """Start one; whoever does so closes it. Raises OrderError."""
        return Cluster(ClusterProcess(self.brokers, self.settings, self.start_s, self.within))

    def __enter__(self) -> Cluster:
        cluster = self.start()
        self._open.append(cluster)
        return cluster

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.pop().close()

    async def __aenter__(self) -> AsyncCluster:
        cluster = await asyncio.to_thread(self.start)
        self._open.append(cluster)
        return AsyncCluster(cluster)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._open.pop().close)


def cluster(
    brokers: int = 1,
    settings: Settings | None = None,
    *,
    start_s: float = START_SECONDS,
    within: Path | str | None = None,
) -> Starting:
    """A cluster for a `with` block: so many brokers, with these settings of brokers beside our own for tests.

    It has to be ready within `start_s` seconds. Its files are in a new folder in `within`, or else in the folder for
    temporary files. Raises OrderError for arguments that none can have.
    """
    return Starting(
        arguments.whole("brokers", brokers, 1, BROKERS_MAX),
        arguments.settings("settings", settings),
        arguments.seconds("start_s", start_s),
        arguments.folder("within", within),
    )
