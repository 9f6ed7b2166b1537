"""Seals on the versions of deployed pools: a version with one was deployed by a program on this cluster's Ray.

A seal covers the pool's name, its incarnation, the version and all that it says. A reader of the topic has old seals,
too: so the metadata log lists the versions that may run, and one that was replaced or stopped is not among them.

The key is made in the data directory, for the cluster's own user alone. From level SHARED on it is in the metadata log,
where each controller of a quorum finds it; brokers are not sent it. It is another one than the cluster's secret, which
may be changed.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgpack

from actors.links.pool_seals import Answer, Ended, MayRun, Newest, Old, OnlyThese, Proven, Seal, SealAnew, Verdict, Wish
from actors.runtime.data_folder import place_of
from actors.runtime.private import read_own
from placement.records import Record
from placement.sealed_pools import (
    PoolSealedRecord,
    PoolsSealedAnewRecord,
    PoolStoppedRecord,
    SealedPool,
    SealedPools,
    SealedVersion,
)

POOLS_KEY: Final = "pools-key"
Commit = Callable[[Sequence[Record]], object]


class PoolSeals:
    """Seals versions by the key of the metadata, or of a data directory, and remembers by `commit` which may run.

    Whatever is asked may be asked again. An answer may leave when what was decided has committed. Raises OSError,
    ValueError if the key or the log cannot be used.
    """

    def __init__(self, folder: Path, pools: Callable[[], SealedPools], commit: Commit) -> None:
        self._folder = folder
        self._pools = pools
        self._commit = commit

    def answer(self, wish: Wish) -> Answer:
        """Do what is wished."""
        match wish:
            case Seal(name, version):
                return self._seal(name, version)
            case MayRun(name, version, seal):
                return self._verdict(name, version, seal)
            case Proven(name, version):
                return self._proven(name, version)
            case Newest(name):
                return self._pool(name).newest
            case SealAnew(versions):
                return self._seal_anew(versions)
            case Ended(name, incarnation):
                self._end(name, incarnation)
            case OnlyThese(names):
                for name in self._pools().by_name.keys() - names:
                    self._end(name, "")
        return None

    @property
    def _key(self) -> bytes:
        return self._pools().key or key_in(self._folder)

    def _pool(self, name: str) -> SealedPool:
        return self._pools().by_name.get(name) or SealedPool(None)

    def _keep(self, name: str, pool: SealedPool) -> None:
        before = self._pools().by_name.get(name)
        if pool.allowed and pool != before:
            self._commit([PoolSealedRecord(name, pool)])
        elif before is not None and not pool.allowed:
            self._commit([PoolStoppedRecord(name)])

    def _seal(self, name: str, version: SealedVersion) -> bytes:
        seal = seal_of_pool(self._key, name, version)
        pool = self._pool(name)
        if version not in pool.allowed:
            self._keep(name, SealedPool(pool.newest, version, pool.good))
        return seal

    def _verdict(self, name: str, version: SealedVersion, seal: bytes) -> Verdict:
        which = f"version {version.version}"
        if not hmac.compare_digest(seal_of_pool(self._key, name, version), seal):
            return Verdict(
                f"{which} was not deployed by a program on this Ray under this name, or was changed since: it is not "
                "run. Deploy it again"
            )
        pool = self._pool(name)
        if version == pool.coming:
            self._keep(name, pool.arrived(version))
            return Verdict()
        if version in pool.allowed:
            return Verdict()
        return Verdict(f"{which} {_what_became(pool, version)}: it is not run. Deploy it again")

    def _proven(self, name: str, version: SealedVersion) -> Verdict:
        pool = self._pool(name)
        if version not in pool.allowed:
            return Verdict(f"version {version.version} {_what_became(pool, version)}: it is not gone back to")
        self._keep(name, pool.proven(version))
        return Verdict()

    def _end(self, name: str, incarnation: str) -> None:
        self._keep(name, self._pool(name).without(incarnation) if incarnation else SealedPool(None))

    # --- pools of earlier releases ---

    def _seal_anew(self, versions: tuple[Old, ...]) -> dict[bytes, bytes]:
        """The seals of those versions that may run. Old seals count at the first time only."""
        if not self._pools().anew:
            good = [old for old in versions if self._was_sealed(old)]
            self._commit([*_taken_over(good, self._pools()), PoolsSealedAnewRecord()])
        return {
            old.version.digest: seal_of_pool(self._key, old.name, old.version)
            for old in versions
            if old.version in self._pool(old.name).allowed
        }

    def _was_sealed(self, old: Old) -> bool:
        return hmac.compare_digest(hmac.digest(self._key, old.digest, "sha256"), old.seal)


def _what_became(pool: SealedPool, version: SealedVersion) -> str:
    newest = pool.newest
    if newest is not None and newest.incarnation == version.incarnation:
        return f"was replaced by version {newest.version}"
    return "is of a pool that was stopped"


def _taken_over(found: list[Old], pools: SealedPools) -> Iterable[PoolSealedRecord]:
    """Of an incarnation that stands under two names, nobody knows which is the right one: neither is taken over."""
    names: dict[str, set[str]] = defaultdict(set)
    for old in found:
        names[old.version.incarnation].add(old.name)
    alone = [old for old in found if len(names[old.version.incarnation]) == 1 and old.name not in pools.by_name]
    for name in dict.fromkeys(old.name for old in alone):
        newest = next((old.version for old in alone if old.name == name and not old.good), None)
        good = next((old.version for old in alone if old.name == name and old.good), None)
        if good is not None and newest is not None and good.incarnation != newest.incarnation:
            good = None
        yield PoolSealedRecord(name, SealedPool(newest, good=good))


def seal_of_pool(key: bytes, name: str, version: SealedVersion) -> bytes:
    """The seal on a version (HMAC-SHA-256)."""
    covered: bytes = msgpack.packb(["pool", name, version.incarnation, version.version, version.digest])
    return hmac.digest(key, covered, "sha256")


def key_in(folder: Path) -> bytes:
    """The key in a data directory. Raises OSError, ValueError if it cannot be read."""
    return bytes.fromhex(read_own(place_of(folder) / POOLS_KEY))
