"""Pools that an earlier release sealed, without their names: read once, when the cluster begins, and sealed anew."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from actors.links.pool_seals import Old
from actors.members.deployment.book import Book
from actors.members.deployment.records import Deployment, Good, PoolRecord, Record, Size
from actors.members.deployment.seals import sealable
from actors.members.pools.plan import PoolError

log = logging.getLogger(__name__)


class Sealer(Protocol):
    """The cluster's controller."""

    def seal_anew(self, versions: tuple[Old, ...]) -> dict[bytes, bytes]:
        """The new seals by digests, of those versions that have one."""


class Writer(Protocol):
    """The topic."""

    def write(self, name: str, *records: Record) -> int:
        """Write records of a pool."""


def seal_anew(book: Book, sealer: Sealer, topic: Writer) -> bool:
    """Write what an earlier release has sealed with new seals. Returns whether anything was written."""
    pools = dict(_readable(book))
    olds = tuple(old for name, record in pools.items() for old in _olds(name, record))
    seals = sealer.seal_anew(olds)
    written = False
    for name, record in pools.items():
        if records := _with_new_seals(record, seals):
            topic.write(name, *records)
            log.info("pool %s has a seal that covers its name now", name)
            written = True
    return written


def _readable(book: Book) -> Iterator[tuple[str, PoolRecord]]:
    for name in book.names():
        try:
            record = book.pool(name)
        except PoolError:
            continue  # whoever lists or starts pools says so
        if record is not None and record.deployment.at_home:
            yield name, record


def _olds(name: str, record: PoolRecord) -> Iterator[Old]:
    for deployment, good in ((record.deployment, False), (record.good, True)):
        if deployment is not None:
            version = sealable(deployment)
            yield Old(name, version, version.digest, deployment.seal, good)


def _with_new_seals(record: PoolRecord, seals: dict[bytes, bytes]) -> list[Record]:
    """The records that have to be written. A size that was wished after the version is wished after it again."""
    made: list[Record] = []
    deployment, good = _sealed(record.deployment, seals), record.good and _sealed(record.good, seals)
    if deployment is not None:
        made.append(deployment)
        if record.scaled_last and record.scaled is not None:
            made.append(Size(deployment.incarnation, record.scaled))
    if good is not None:
        made.append(Good(good.incarnation, good))
    return made


def _sealed(deployment: Deployment, seals: dict[bytes, bytes]) -> Deployment | None:
    """The same with its new seal; None if there is none, or it has that."""
    seal = seals.get(sealable(deployment).digest, deployment.seal)
    return replace(deployment, seal=seal) if seal != deployment.seal else None
