"""Applies images of the metadata to a broker: its settings, what it leads and follows, and its logs."""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from pathlib import Path

from actors.broker.context import Beside, BrokerContext, Coordinators, log_config
from actors.broker.quotas import quotas_of
from actors.broker.replication import ReplicaManager
from actors.log.data_dir import remove_folders
from actors.runtime.logs import about, at
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

_DROPS_A_TURN = 50


def with_dynamic(config: BrokerConfig, metadata: ClusterMetadata, broker_id: int) -> BrokerConfig:
    """A broker's settings with the changes that were made while the cluster runs."""
    changes: dict[str, str | None] = dict.fromkeys(config.dynamic)
    cluster_wide = metadata.broker_configs.get("", {})
    own = metadata.broker_configs.get(str(broker_id), {})
    changes.update(cluster_wide)
    changes.update(own)
    return config.with_dynamic(changes, cluster_wide.keys() - own.keys()) if changes else config


def _logs_differ(before: BrokerConfig, after: BrokerConfig) -> bool:
    """True if logs without settings of their own have others now. Most images bring the broker no new settings."""
    return after is not before and log_config({}, before) != log_config({}, after)


class Images:
    """Applies the controller's images, each newer than the one before."""

    def __init__(
        self, context: BrokerContext, replicas: ReplicaManager, coordinators: Coordinators, beside: Beside
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._coordinators = coordinators
        self._beside = beside
        self._doomed: dict[tuple[str, int], None] = {}  # logs of deleted topics that are still here
        self._dropping: set[asyncio.Task[None]] = set()
        self._closed = False

    def close(self) -> None:
        """Apply no more images, because the logs are being closed."""
        self._closed = True

    def apply(self, metadata: ClusterMetadata) -> None:
        """Take over an image: drop the logs of deleted topics, lead and follow what it says, tell the shards."""
        if self._closed:
            return
        context = self._context
        if (metadata.controller_epoch, metadata.version) < (
            context.metadata.controller_epoch,
            context.metadata.version,
        ):
            log.warning(
                "an image of a former controller (epoch %d) is ignored",
                metadata.controller_epoch,
                extra=about(epoch=metadata.controller_epoch),
            )
            return
        older = context.metadata
        context.metadata = metadata = metadata if metadata.whole else metadata.with_security_of(older)
        context.authorizer.update(metadata.acls)
        context.quotas = quotas_of(context.quotas, metadata.quotas, context.config, context.loop)
        before = context.config
        context.config = with_dynamic(before, metadata, context.broker_id)
        self._drop_logs(metadata)
        self._lead()
        self._replicas.apply(metadata)
        self._beside.apply()
        for name, index in context.fetches.partitions():
            if older.partition(name, index) != metadata.partition(name, index):
                context.fetches.wake(name, index)
        self._configure_logs(older, everywhere=_logs_differ(before, context.config))
        self._coordinators.note_topics()

    def _configure_logs(self, older: ClusterMetadata, *, everywhere: bool) -> None:
        """Give logs their new settings: all logs, or those of topics whose settings have changed."""
        context = self._context
        for name, topic in context.metadata.topics.items():
            before = older.topics.get(name)
            if everywhere or (before is not None and before.configs != topic.configs):
                config = context.topic_log_config(name)
                for index in range(len(topic.partitions)):
                    found = context.data_dir.get(name, index)
                    if found is not None:
                        found.config = config

    def _lead(self) -> None:
        """Move the high watermark of logs that no other broker holds to their end: all in them has committed."""
        me = self._context.broker_id
        for key, found in self._context.data_dir.logs.items():
            partition = self._context.metadata.partition(*key)
            if partition is not None and partition.leader == me and len(partition.replicas) == 1:
                found.assign_leader_epoch(partition.leader_epoch)
                if found.advance_high_watermark(found.log_end_offset):  # other replicas were waited for until now
                    self._replicas.committed(key, found.high_watermark)

    # --- logs that are to go ---

    def _drop_logs(self, metadata: ClusterMetadata) -> None:
        """Delete the logs of deleted topics, and of partitions that were moved away, a few in each turn of the loop.

        At once if a new log is to be made under the same name.
        """
        loop, logs = self._context.loop, self._context.data_dir.logs
        mine = {key for key in [*logs, *self._doomed] if self._holds(metadata, key)}
        back = [key for key in self._doomed if key in mine]
        if back:
            loop.run_in_executor(None, remove_folders, self._drop(back))
        idle = not self._doomed
        self._doomed.update((key, None) for key in logs if key not in mine)
        if self._doomed and idle:
            task = loop.create_task(self._drop_doomed())
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)

    def _holds(self, metadata: ClusterMetadata, key: tuple[str, int]) -> bool:
        partition = metadata.partition(*key)
        return partition is not None and self._context.broker_id in partition.replicas

    async def _drop_doomed(self) -> None:
        while self._doomed and not self._closed:
            folders = self._drop(list(islice(self._doomed, _DROPS_A_TURN)))
            await self._context.loop.run_in_executor(None, remove_folders, folders)

    def _drop(self, keys: list[tuple[str, int]]) -> list[Path]:
        folders = []
        for key in keys:
            del self._doomed[key]
            try:
                folders.append(self._context.data_dir.delete(*key))
            except OSError as error:
                log.error("the log of %s-%d cannot be dropped: %s", *key, error, extra=at(*key))
        return [folder for folder in folders if folder is not None]
