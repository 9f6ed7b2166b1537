"""Changes of the metadata: logged first, then told to the brokers, then answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from actors.controller.allowed import check_allowed
from actors.controller.events import Changes
from actors.controller.metadata_log import MetadataLog
from actors.controller.sessions import Session
from actors.controller.unacked import Unacked
from actors.links.chronicle import Chronicle
from actors.links.control import CODEC, Answer, Failed, Image
from actors.links.operations import AllocateProducerIds, AlterPartitions, Operation, Result
from actors.runtime.logs import about
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

_ANSWERED_AT_ONCE = (AllocateProducerIds, AlterPartitions)  # answered without waiting until all brokers know


class Publisher:
    """Writes changes to the metadata log and sends `brokers`, the registered ones by id, the new image."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        brokers: Mapping[int, Session],
        chronicle: Chronicle,
        loop: asyncio.AbstractEventLoop,
        ack_wait_s: float,
    ) -> None:
        self._log = metadata_log
        self._brokers = brokers
        self._chronicle = chronicle
        self._unacked = Unacked(loop, ack_wait_s)

    @property
    def metadata(self) -> ClusterMetadata:
        return self._log.metadata

    def commit(self, records: list[list[Any]], *, tell: bool = True) -> None:
        """Log a change, and tell brokers unless that comes later. Raises OSError if the log cannot be written."""
        if records:
            changes = Changes(self.metadata, records)
            self._log.append(records)
            if tell:
                self.tell()
            changes.note(self._chronicle)

    def tell(self) -> None:
        """Send brokers the new image. Credentials and ACLs, which may be many, are in it only if they have changed."""
        metadata = self.metadata
        images: dict[tuple[bool, int], bytes] = {}
        for session in self._brokers.values():
            known, version = session.security_version == metadata.security_version, session.protocol.version
            if (known, version) not in images:
                image = Image(metadata.without_security() if known else metadata)
                images[known, version] = CODEC.encode(image, version)
            session.protocol.send_encoded(images[known, version])
            session.security_version = metadata.security_version

    def call(
        self,
        session: Session,
        number: int,
        operation: Operation[Result],
        by: str,
        operate: Callable[[Operation[Result]], tuple[Result, list[list[Any]]]],
    ) -> None:
        """Do what a broker asks for, if it may ask: `operate` gives the result and the records to log."""
        try:
            check_allowed(operation, session)
            result, records = operate(operation)
            self.commit(records)
        except Exception as error:
            log.exception("%s failed", type(operation).__name__)
            session.protocol.send(Failed(number, f"{type(error).__name__}: {error}"))
            return
        answer, name = Answer(number, result), type(operation).__name__
        if records:
            at = max(session.broker_id, session.joins)
            log.info("%s by %r at broker %d: %d records", name, by, at, len(records), extra=about(broker=at))
        if not records or isinstance(operation, _ANSWERED_AT_ONCE):
            session.protocol.send(answer)
            return
        self._unacked.add(self.metadata.version, lambda: session.protocol.send(answer))
        self.release_acked()

    def release_acked(self) -> None:
        """Send the answers whose changes all registered brokers know."""
        self._unacked.send_up_to(min((s.acked_version for s in self._brokers.values()), default=1 << 62))
