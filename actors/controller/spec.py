"""The arguments of a controller's start, and the settings that it goes by while it runs."""

# No `from __future__ import annotations`: the codec reads the types of a class that says to be of another module.

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from actors.controller.settings_in_force import Changed
from actors.links.codec import Codec
from actors.links.versions import Spoken
from actors.monitor.spec import MonitorSpec
from actors.settings import ANY_HOST, LISTENERS, BrokerConfig


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """The arguments of a controller's start. Of the secret only the file's name is sent."""

    __module__ = "actors.controller.actor"  # in pickles: there, programs of earlier builds have this class

    name: str
    data_dir: str
    host: str | None
    """The address brokers listen at; None: that of their Ray node."""
    brokers: int
    port: int | None
    """The port of broker 0; the others have the ports after it. 0 means any free ones, None those of `listeners`."""
    socket_dir: str
    secret_file: str
    config: dict[str, str]
    version: str
    transition: Mapping[str, str] = field(default_factory=dict)
    """Settings that hold over `config` until the next change of settings (`settings_in_force`)."""
    everywhere: bool = True
    """True if no broker runs with settings from before."""
    former: Mapping[str, str] = field(default_factory=dict, metadata={"since": 3})
    """Settings from before by which brokers may still go, where the controller must go by them, too."""

    def with_settings(self, changed: Changed) -> Self:
        """The same with settings that were changed while the cluster runs. The port of `listeners` holds, if set."""
        port = None if LISTENERS in changed.config else self.port
        return replace(
            self,
            config=dict(changed.config),
            transition=changed.transition,
            everywhere=changed.everywhere,
            former=changed.former,
            port=port,
        )

    @property
    def effective(self) -> dict[str, str]:
        """The settings that processes are told."""
        return {**self.config, **self.transition}

    @property
    def of_controller(self) -> BrokerConfig:
        """The settings that the controller goes by. It waits for brokers that run with those from before."""
        former = getattr(self, "former", {})  # in an upgrade, a controller of an earlier build does not tell it
        return BrokerConfig.from_mapping({**self.effective, **former})

    @property
    def namespace(self) -> str:
        return f"coterie-{self.name}"

    def own_host(self, node_address: str) -> str:
        """The address where a process on this node listens for the cluster's other processes; never a wildcard."""
        return node_address if self.host is None or self.host in ANY_HOST else self.host

    @property
    def log_dir(self) -> str:
        return str(Path(self.data_dir) / "logs")

    @property
    def homes_file(self) -> Path:
        """The file that says where each broker's data is: broker id -> [its Ray node's address, port, label]."""
        return Path(self.data_dir) / "controller" / "homes.json"

    @property
    def monitor(self) -> MonitorSpec:
        """The arguments of the cluster's Monitor."""
        return MonitorSpec(self.name, self.namespace, self.data_dir, self.secret_file, self.effective)


@dataclass(frozen=True, slots=True)
class ControllerStart:
    """All that a controller's actor is told: by a process that speaks `starter`. Ray tells it the same at a restart.

    It goes through Ray as bytes of a codec: when the process is restarted, another build may be installed.
    """

    starter: Spoken
    spec: ControllerSpec

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @classmethod
    def decoded(cls, told: bytes) -> Self:
        """The inverse of `encoded`. Raises LinkError."""
        return _CODEC.read(cls, told)


@dataclass(frozen=True, slots=True)
class VoterStart:
    """All that the actor of one of several controllers is told. `controllers` are the ids of all.

    `founds`: it begins the cluster's log if it has none, unless Ray has started it again: then its disk is another one,
    and the others have the log.
    """

    starter: Spoken
    spec: ControllerSpec
    controller_id: int
    controllers: tuple[int, ...]
    founds: bool

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @property
    def name(self) -> str:
        """The name of its folder in the data directory, and of its log. The first has those of one that is alone."""
        return controller_folder(self.controller_id)


def controller_folder(controller_id: int) -> str:
    """The name of a controller's folder in the data directory."""
    return f"controller-{controller_id}" if controller_id else "controller"


_CODEC: Final[Codec[ControllerStart | VoterStart]] = Codec("start", {1: ControllerStart, 2: VoterStart})


def start_told(told: bytes) -> ControllerStart | VoterStart:
    """The arguments of an actor's start. Raises LinkError."""
    return _CODEC.decode(told)


@dataclass(slots=True)
class SpecInForce:
    """The arguments that a controller was started with `first`, and those that hold `now`, with later settings."""

    first: ControllerSpec
    now: ControllerSpec
