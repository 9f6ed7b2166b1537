"""Ray nodes that are drained: their brokers lead nothing that others can lead, and nothing new is put there.

Ray drains a node that is about to go: for a cloud that takes it back, or because `ray start --block` was sent a
SIGTERM, half a minute before its end (`actors/runtime/ray_nodes.py`). That is time enough for leaders, and never for
replicas: what the brokers there have stays where it is.

**Nothing of it is in the metadata log.** That a node is drained is Ray's state, not ours. It is true as of the last
look, a second ago; a record of it would be older after a restart of the controller, and would have to be compared with
Ray's word all the same. No broker needs it, for what follows from it, elections, is in records. So a controller that
has just begun knows of no drained node, and looks within a second. Between two looks what was told last counts: also
while Ray is away.

Two parts: `DrainLook`, a thread that asks Ray, and `Draining`, which decides on the controller's loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from actors.controller.broker_changes import BrokerChanges
from actors.controller.metadata.log import Log
from actors.links.chronicle import Chronicle
from actors.runtime.logs import about
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0


class Draining:
    """The brokers on drained nodes, whose partitions others are to lead. Everything runs on the controller's loop.

    `node_of` gives the id of a broker's Ray node, `present` are the brokers that have come to this controller.
    """

    def __init__(
        self,
        metadata_log: Log,
        changes: BrokerChanges,
        chronicle: Chronicle,
        node_of: Callable[[int], str],
        present: Callable[[], Collection[int]],
    ) -> None:
        self._log = metadata_log
        self._changes = changes
        self._chronicle = chronicle
        self._node_of = node_of
        self._present = present
        self._nodes: Mapping[str, int] = {}
        self._noted: frozenset[int] = frozenset()

    def told(self, nodes: Mapping[str, int]) -> None:
        """Ray says that these nodes are drained, and when their time ends (Unix milliseconds; 0: not known)."""
        self._nodes = nodes
        self.tick()

    def until(self, broker_id: int) -> int | None:
        """The end of the time of a broker's drained node (Unix ms; 0: not known); None if it is not drained."""
        return self._nodes.get(self._node_of(broker_id))

    def tick(self) -> None:
        """Have others lead what they can by now. It costs nothing while no node is drained."""
        found = self._found()
        self._note(found)
        for metadata in (self._log.committed, self._log.decided):  # a drop copies the former to the latter
            metadata.draining = found
        if found:
            self._changes.drained_led_elsewhere(self._present())

    def _found(self) -> frozenset[int]:
        """The brokers on drained nodes. If no broker lives elsewhere, they have to do: none is."""
        if not self._nodes:
            return frozenset()
        metadata: ClusterMetadata = self._log.decided
        there = frozenset(each for each in metadata.brokers if self.until(each) is not None)
        return there if any(broker.id not in there for broker in metadata.alive()) else frozenset()

    def _note(self, found: frozenset[int]) -> None:
        for broker_id in sorted(found - self._noted):
            node = self._node_of(broker_id)[:12]
            log.warning(
                "broker %d: its Ray node %s is drained; others lead what they can",
                *(broker_id, node),
                extra=about(broker=broker_id),
            )
            self._chronicle.note(
                "drain", f"broker {broker_id}", f"Its Ray node {node} is drained: other brokers lead what they can."
            )
        for broker_id in sorted(self._noted - found):
            log.info("broker %d is on no drained Ray node any more", broker_id, extra=about(broker=broker_id))
        self._noted = found


class DrainLook:
    """The thread that asks Ray which nodes are drained. `tell` hears it after each look that finds one, and once after.

    `ask` returns None where Ray does not tell: nothing is known then, and nothing told. `nodes` are those that brokers
    are on. While they are all on one node there is nowhere to go, and Ray, which may be embedded, is not asked at all.
    """

    def __init__(
        self,
        nodes: Callable[[], Collection[str]],
        ask: Callable[[], Mapping[str, int] | None],
        tell: Callable[[Mapping[str, int]], None],
        interval_s: float = LOOK_SECONDS,
    ) -> None:
        self._nodes = nodes
        self._ask = ask
        self._tell = tell
        self._interval_s = interval_s
        self._told = False
        self._ended = threading.Event()

    def start(self) -> None:
        """Have a thread look from now on."""
        threading.Thread(target=self._run, name="coterie-draining", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self.look()
            except Exception:  # nobody looks at this thread, and the next look may do
                log.exception("could not look which Ray nodes are drained")

    def look(self) -> None:
        """Look once."""
        found = self._ask() if len(self._nodes()) > 1 else {}
        if found is None:
            return
        if found or self._told:
            self._tell(found)
        self._told = bool(found)
