"""Several controllers agree: what has committed on one is what commits on all, and one alone extends leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.controller.active import ActiveController
from actors.controller.metadata.commits import DecidedMetadata
from actors.links.control import Confirmed

if TYPE_CHECKING:
    from tests.sim.run import Change, World


class Agreement:
    """Watches the controllers of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sim = world.sim
        self.cluster = world.cluster
        self._committed: dict[int, str] = {}
        """The records that have committed, by the version of the metadata after them."""
        self._epochs: set[int] = set()

    def hooks(self) -> list[Change]:
        return [
            (DecidedMetadata, "commit", self._watch_commit(DecidedMetadata.commit)),
            (ActiveController, "confirm", self._watch_confirm(ActiveController.confirm)),
            (ActiveController, "begin", self._watch_begin(ActiveController.begin)),
        ]

    def figures(self) -> dict[str, int]:
        return {"controllers_began": len(self._epochs)}

    def _watch_commit(self, product: Any) -> Any:
        def commit(states: DecidedMetadata, index: int) -> None:
            for each, records in states.pending:
                if each.index <= index:
                    said = repr(records)
                    known = self._committed.setdefault(each.index, said)
                    if known != said:
                        text = f"version {each.index} has committed as {known}, and now as {said}"
                        self.sim.fail("one-log", text)
            self._judge_committed(states, index)
            product(states, index)

        return commit

    def _judge_committed(self, states: DecidedMetadata, version: int) -> None:
        """Records up to this version count as committed on a node: the entries that they are in have committed."""
        for each in self.cluster.controllers:
            if each.log is None or each.log.states is not states:
                continue
            early = [at for at, commit in each.log.waiting if commit.index <= version and at > each.log.committed_index]
            if early:
                text = f"version {version} counts as committed on {each.host}, and entry {early[0]} has not committed"
                self.sim.fail("one-log", text)

    def _watch_confirm(self, product: Any) -> Any:
        def confirm(server: ActiveController, protocol: Any, sent: float) -> None:
            sends = protocol.send

            def send(message: Any) -> None:
                if isinstance(message, Confirmed):
                    self._judge_confirmed(server)
                sends(message)

            protocol.send = send
            try:
                product(server, protocol, sent)
            finally:
                del protocol.send

        return confirm

    def _judge_confirmed(self, server: ActiveController) -> None:
        """A lease is extended: no other controller may have begun, or be able to extend one."""
        newest = max(self._epochs, default=0)
        if server.epoch < newest:
            self.sim.fail("one-controller", f"the controller of epoch {server.epoch} extends a lease in epoch {newest}")
        for each in self.cluster.controllers:
            if each.running and each.log is not None and each.log is not server.log and each.log.confirms():
                self.sim.fail("one-controller", f"{each.host} may extend leases, and another does")

    def _watch_begin(self, product: Any) -> Any:
        def begin(server: ActiveController, address: tuple[str, int]) -> None:
            if server.epoch in self._epochs:
                self.sim.fail("one-controller", f"a second controller begins in epoch {server.epoch}")
            self._epochs.add(server.epoch)
            product(server, address)

        return begin

    def at_rest(self, others: Callable[[], bool]) -> Callable[[], bool]:
        """Ready once `others` are, and each controller has a vote and all that has committed."""

        def look() -> bool:
            if not others():
                return False
            self.world.witness.why = self._why_not()
            return not self.world.witness.why

        return look

    def _why_not(self) -> str:
        for each in self.cluster.controllers:
            if not each.running or each.log is None:
                return f"{each.host} does not run"
            if {voter.id for voter in each.log.voters} != set(self.cluster.voters):
                return f"{each.host} knows of the voters {each.log.voters}"
            if each.log.committed.version != self.cluster.truth.version:
                return f"{each.host} has version {each.log.committed.version}, not {self.cluster.truth.version}"
        return ""
