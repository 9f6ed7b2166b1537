"""What a broker is told when it is started, and why it may not start."""

from __future__ import annotations

from dataclasses import dataclass

from actors import CoterieError


class StartError(CoterieError):
    """A broker cannot start; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """What a broker is told when it is started. `port` 0 takes any free one, which the next start asks for again."""

    broker_id: int
    bind_host: str
    advertised_host: str
    port: int
    advertised_port: int
    data_dir: str
    socket_path: str
    config: dict[str, str]
    port_chosen_by: str = ""
    """The setting that chose `port`, as a user writes it. If empty, another port will do if this one is taken."""
