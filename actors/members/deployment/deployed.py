"""DeployedPool: a program's handle of a pool that outlives it. It wishes by records in a topic, and asks the supervisor."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from actors.members.deployment.description import PoolDescription


class DeployedPool:
    """A pool by its name. `ConsumerPool.deploy` and `ConsumerPool.attach` return it; closing it changes nothing there.

    What is wished stands in the topic `__coterie_pools` when a method returns; the supervisor does it then, at once or
    when Ray has restarted it. `scale`, `pause`, `resume`, `restart` and `stop` need no Ray. `describe` asks the
    supervisor if this process is connected to the Ray on which it runs; otherwise it says what the topic says.

    Methods raise PoolError if there is no such pool (any more), and KafkaError if the brokers do not answer.
    """

    def __init__(self, name: str, bootstrap_servers: str, **security: Any) -> None:
        """`security` are settings of `Admin` that are about logins and TLS."""
        self.name = name
        self.bootstrap_servers = bootstrap_servers
        raise NotImplementedError

    @staticmethod
    def deployed(bootstrap_servers: str, **security: Any) -> list[PoolDescription]:
        """All pools of this Kafka cluster, by name. Their supervisors are asked as far as they are on this Ray."""
        raise NotImplementedError

    @staticmethod
    def revive(bootstrap_servers: str, *names: str, **security: Any) -> list[str]:
        """Start supervisors on this Ray for pools that have none here: of these names, or of all. Returns which.

        A pool that runs on another Ray must not be started here, too: its members would fence one another.
        """
        raise NotImplementedError

    def describe(self) -> PoolDescription:
        """The pool now."""
        raise NotImplementedError

    def handled(self) -> int:
        """How many records all members have handled since the supervisor began."""
        raise NotImplementedError

    def scale(self, size: int) -> None:
        """Change the number of members. PoolError for a pool that follows its load: deploy it with other bounds."""
        raise NotImplementedError

    def pause(self) -> None:
        """Have all members finish what is in hand, commit and leave. The group keeps its offsets, the pool its size."""
        raise NotImplementedError

    def resume(self) -> None:
        """Have the members of a paused pool start again."""
        raise NotImplementedError

    def restart(self) -> None:
        """Restart the members one at a time, with the version that they have; those that have failed as well."""
        raise NotImplementedError

    def stop(self, timeout_s: float = 60.0) -> None:
        """Have all members finish, commit and leave, and forget the pool. The group keeps its offsets.

        Returns when that is done. Raises PoolError if it is not within `timeout_s`; it is done later then.
        """
        raise NotImplementedError

    def wait(self, until: Callable[[PoolDescription], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Block until `until(describe())` is true, or `timeout_s` has passed (returns False).

        Without `until`: until it is as wished, which is Running or Paused with nothing left to roll. Raises PoolError
        if the pool has failed, or its last version has been rolled back.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close this program's connections. The pool goes on."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
