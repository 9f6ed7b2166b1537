"""The judgement whether a silent broker is dead.

To wait for one is safe: nobody else is elected meanwhile, and its lease has run out by its own clock.
"""

from __future__ import annotations

from actors.controller.sessions import Launcher, Session
from actors.runtime.liveness import Silence
from placement.metadata import BrokerInfo

_LEASES_FOR_A_DISK = 2  # a silent broker may wait for its disk for so many leases


class Deaths:
    """The judgement of brokers that are silent. The launcher looks at their processes.

    A broker that is silent for `lease_s` is dead, unless its process wants a CPU and gets none, or waits for a disk. It
    may wait for a disk for two leases.
    """

    def __init__(self, launcher: Launcher, lease_s: float) -> None:
        self._launcher = launcher
        self._lease_s = lease_s
        self._absent: dict[int, Silence] = {}  # brokers that were started before us and have not registered with us

    def is_dead(self, session: Session, silent_s: float) -> bool:
        """True if a broker that has registered is dead."""
        if session.silence is None:
            session.silence = Silence()
        return self._is_death(session.silence, silent_s, session.broker_id, session.pid, session.process_started)

    def stays_away(self, broker_id: int, known: BrokerInfo | None, waited_s: float) -> bool:
        """True if a broker of an earlier controller is dead. `known` is its entry in the metadata."""
        pid, started = (known.pid, known.process_started) if known is not None and known.alive else (0, 0)
        return self._is_death(self._absent.setdefault(broker_id, Silence()), waited_s, broker_id, pid, started)

    def settled(self, broker_id: int) -> None:
        """It has registered, or counts as dead: its next absence begins anew."""
        self._absent.pop(broker_id, None)

    def wait_anew(self) -> None:
        """All that are absent have as long again."""
        self._absent.clear()

    def _is_death(self, silence: Silence, silent_s: float, broker_id: int, pid: int, started: int) -> bool:
        return silence.is_death(
            silent_s,
            self._lease_s,
            lambda: self._launcher.look_at(broker_id, pid, started),
            disk_s=_LEASES_FOR_A_DISK * self._lease_s,
        )
