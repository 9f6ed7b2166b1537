"""Operations that brokers ask for: each is judged, decided, committed and told; then it is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from actors.controller.allowed import check_allowed
from actors.controller.decisions.decision import RefusedError
from actors.controller.faults import Faults
from actors.controller.metadata.commits import Commit, NotControllerError
from actors.controller.metadata.publisher import Publisher
from actors.controller.metadata.unacked import Unacked
from actors.controller.sessions import Session
from actors.links.control import Answer, Failed
from actors.links.operations import AllocateProducerIds, AlterPartitions, Faulted, Operation, Result
from actors.runtime.logs import about
from placement.records import Record

log = logging.getLogger(__name__)

Decide: TypeAlias = Callable[[Operation[Result]], tuple[Result, Sequence[Record]]]

_ANSWERED_AT_ONCE: Final = (AllocateProducerIds, AlterPartitions)
"""Answered when they have committed, without waiting until all brokers know."""


class Operations:
    """Carries out operations: `decide` gives the result and the records of one.

    An answer waits for the commit of what it was made of, then until all of `acked` (the versions that brokers have)
    have it, for `ack_wait_s` at most.
    """

    def __init__(
        self,
        publisher: Publisher,
        decide: Decide,
        acked: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        ack_wait_s: float,
        faults: Faults,
    ) -> None:
        self._publisher = publisher
        self._decide = decide
        self._acked = acked
        self._unacked = Unacked(loop, ack_wait_s)
        self._faults = faults

    def call(self, session: Session, number: int, operation: Operation[Result], by: str) -> None:
        """Do what a broker asks for, if it may ask. A bug that this meets costs this answer alone."""
        name = type(operation).__name__
        try:
            check_allowed(operation, session)
            result, records = self._decide(operation)
            commit = self._publisher.commit(records)
        except RefusedError as error:  # made of the decided metadata, which may not have committed yet
            self._answer_later(session, _failed(name, number, error), self._publisher.commit(()), at_once=True)
        except (PermissionError, OSError, NotControllerError) as error:
            session.protocol.send(_failed(name, number, error))
        except Exception as error:  # whatever a bug raises: the next request has nothing to do with it
            session.protocol.send(
                Answer(number, Faulted(f"the controller failed to carry out {name}: {type(error).__name__}"))
            )
            self._faults(name, error)
        else:
            if records:
                at = max(session.broker_id, session.joins)
                log.info("%s by %r at broker %d: %d records", name, by, at, len(records), extra=about(broker=at))
            at_once = not records or isinstance(operation, _ANSWERED_AT_ONCE)
            self._answer_later(session, Answer(number, result), commit, at_once=at_once)

    def _answer_later(self, session: Session, answer: Answer | Failed, commit: Commit, *, at_once: bool) -> None:
        def committed() -> None:
            if at_once:
                session.protocol.send(answer)
            else:
                self._unacked.add(commit.index, lambda: session.protocol.send(answer))
                self.release_acked()

        def dropped() -> None:
            session.protocol.send(Failed(answer.number, "another controller has begun, and the change was dropped"))

        commit.then(committed, dropped)

    def release_acked(self) -> None:
        """Send the answers whose changes all registered brokers know."""
        self._unacked.send_up_to(self._acked())


def _failed(name: str, number: int, error: Exception) -> Failed:
    log.error("%s failed: %s", name, error)
    return Failed(number, f"{type(error).__name__}: {error}")
