"""Changes that the controller makes of itself, when brokers come, stay and go: decided and committed.

A change that cannot be logged, or whose decision has a bug, is not made: the log says so, and what comes next may make
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from actors.controller.decisions.draining import drained_led_elsewhere
from actors.controller.decisions.elections import (
    all_stopped,
    broker_lost,
    broker_registered,
    broker_staying,
    leadership_balanced,
    preferred_elected,
)
from actors.controller.decisions.removal import removal_begun, removal_called_off, removals_go_on
from actors.controller.decisions.replacement import broker_replaced, directory_told
from actors.controller.faults import Faults
from actors.controller.metadata.commits import Commit, NotControllerError
from actors.controller.metadata.log import Log
from actors.controller.metadata.publisher import Publisher
from actors.controller.sessions import described
from actors.links.control import Hello
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from placement.metadata import Directory
from placement.records import BrokerDirectoryRecord, BrokerRecord, Record

log = logging.getLogger(__name__)

_STAYS: Final = "leadership stays where it is"


class BrokerChanges:
    """Makes them by `publisher` on the log. `config` gives the settings that are in force."""

    def __init__(
        self, metadata_log: Log, publisher: Publisher, config: Callable[[], BrokerConfig], faults: Faults
    ) -> None:
        self._log = metadata_log
        self._publisher = publisher
        self._config = config
        self._faults = faults

    def stopped(self) -> Commit:
        """No broker of an earlier run is alive. Those deaths are nobody's news. Raises OSError."""
        return self._publisher.commit(all_stopped(self._log.decided), tell=False, note=False)

    def registered(self, hello: Hello, epoch: int) -> None:
        """A broker has another process than the metadata says, whose death may not have been noticed.

        It is one change: the former process dies, the new one comes, and leaders are elected, or nothing of that.
        Brokers are told by whoever calls this. It raises what goes wrong.
        """
        config, after = self._config(), self._log.decided.copy()
        records: list[Record] = []

        def decided(more: Iterable[Record]) -> None:
            records.extend(made := tuple(more))
            after.apply_all(made)

        decided(broker_lost(after, hello.broker_id, config=config))
        decided([BrokerRecord(described(hello, epoch))])
        decided(directory_told(after, hello.broker_id, hello.directory))
        decided(broker_registered(after, hello.broker_id, intact=hello.intact, config=config))
        self._publisher.commit(records, tell=False)

    def has(self, broker_id: int, directory: str) -> None:
        """A broker that is registered has this data directory, which may not have been recorded yet."""
        what = f"the data directory of broker {broker_id} is not recorded"
        self._make(what, lambda: directory_told(self._log.decided, broker_id, directory), broker_id)

    def lost(self, broker_id: int) -> Commit | None:
        """A broker is gone. None if that could not be recorded."""
        what = f"broker {broker_id} still counts as alive"
        return self._make(what, lambda: broker_lost(self._log.decided, broker_id, config=self._config()), broker_id)

    def replaced(self, broker_id: int, directory_id: str) -> Commit | None:
        """A broker's data is gone for good; its next process makes this directory. None if that was not recorded."""
        what = f"broker {broker_id} is not replaced"
        return self._make(
            what,
            lambda: broker_replaced(self._log.decided, broker_id, directory_id, config=self._config()),
            broker_id,
        )

    def awaits(self, broker_id: int, directory_id: str) -> Commit | None:
        """The next process of a broker that was replaced makes this directory. None if that was not recorded."""
        what = f"broker {broker_id} is not moved"
        return self._make(
            what, lambda: [BrokerDirectoryRecord(broker_id, Directory(directory_id, awaited=True))], broker_id
        )

    def removal_begun(self, broker_id: int, now_ms: int, throttle: int | None) -> Commit | None:
        """A broker is to be removed, with this throttle. None if that could not be recorded."""
        what = f"broker {broker_id} is not removed"
        return self._make(what, lambda: removal_begun(self._log.decided, broker_id, now_ms, throttle), broker_id)

    def removal_called_off(self, broker_id: int) -> Commit | None:
        """A broker is not to be removed any more. None if that could not be recorded."""
        what = f"the removal of broker {broker_id} is not called off"
        return self._make(what, lambda: removal_called_off(self._log.decided, broker_id), broker_id)

    def removals_go_on(self) -> Commit | None:
        """Take the next step of all removals. None if that could not be recorded: the next call takes it."""
        return self._make("removals stand still", lambda: removals_go_on(self._log.decided, self._config()))

    def drained_led_elsewhere(self, present: Collection[int]) -> Commit | None:
        """Others lead what brokers on drained nodes lead, if they are `present`. None if that was not recorded."""
        return self._make(_STAYS, lambda: drained_led_elsewhere(self._log.decided, self._config(), present))

    def stays(self, broker_id: int) -> None:
        """A broker does not leave. If this cannot be recorded, its next heartbeat says it again."""
        what = f"broker {broker_id} still counts as leaving"
        self._make(what, lambda: broker_staying(self._log.decided, broker_id), broker_id)

    def balance(self) -> bool:
        """Give leadership back to brokers that lack too much of it. False if that could not be recorded."""
        config = self._config()
        percentage = config.integer("leader.imbalance.per.broker.percentage")
        before = self._log.decided.version
        made = self._make(_STAYS, lambda: leadership_balanced(self._log.decided, percentage, config=config))
        if moved := self._log.decided.version - before:
            log.info("leadership of %d partitions goes back to their preferred replicas", moved)
        return made is not None

    def elect_preferred(self) -> None:
        """Make the first replica of each partition its leader, if that one is in sync."""
        self._make(_STAYS, lambda: preferred_elected(self._log.decided, config=self._config()))

    def _make(self, what: str, decide: Callable[[], Sequence[Record]], broker_id: int | None = None) -> Commit | None:
        """Decide and commit. None if that cannot be; then `what` is so."""
        try:
            return self._publisher.commit(decide())
        except (OSError, NotControllerError) as error:
            extra = {} if broker_id is None else about(broker=broker_id)
            log.error("%s, the metadata log cannot be written: %s", what, error, extra=extra)
        except Exception as error:  # whatever a bug raises: other brokers have nothing to do with it
            self._faults(what, error)
        return None
