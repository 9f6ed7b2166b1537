"""`Admin`: topics, replicas, settings, records, groups, offsets, ACLs, on any Kafka. Names follow kafka-python's.

This module has the public methods. Each has one of the parts (`topics`, `records`, `configs`, and so on) do its work
on the event loop, and waits for it. `brokers` chooses the broker of a request and repeats it if need be.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from actors.client.admin.acls import Acls
from actors.client.admin.brokers import Brokers
from actors.client.admin.configs import Configs
from actors.client.admin.described_groups import refusal_of
from actors.client.admin.groups import Groups
from actors.client.admin.quotas import Changes, ClientQuotas
from actors.client.admin.records import Records
from actors.client.admin.replicas import Replicas
from actors.client.admin.topics import Topics
from actors.client.admin.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    LogDirDescription,
    NewTopic,
    PartitionReassignment,
    QuotaEntity,
    ScramDeletion,
    ScramUpsertion,
    TopicDescription,
)
from actors.client.admin.users import Users, deletion, upsertion
from actors.client.config import admin_config
from actors.client.consumer.positions import EARLIEST, LATEST
from actors.client.errors import KafkaError
from actors.client.records import Node, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from actors.runtime.environment import REAL, Environment
from actors.security.acl import Acl, AclFilter

Outcome = TypeVar("Outcome")
K = TypeVar("K")


class Admin:
    """`Admin(bootstrap_servers="localhost:9092")`; thread-safe, and a context manager.

    Retriable errors are retried until `timeout_ms` (None: default_api_timeout_ms). A method on several things raises
    the first error; with `raise_errors=False` it returns, for each of them, its error or None. Time and
    chance are those of `environment`.
    """

    def __init__(self, *, environment: Environment = REAL, **settings: Any) -> None:
        self.config = admin_config(settings)
        self._brokers = Brokers(self.config, environment)
        self._topics = Topics(self._brokers)
        self._records = Records(self._brokers)
        self._configs = Configs(self._brokers)
        self._groups = Groups(self._brokers)
        self._replicas = Replicas(self._brokers)
        self._users = Users(self._brokers)
        self._chance = environment.chance
        self._acls = Acls(self._brokers)
        self._quotas = ClientQuotas(self._brokers)

    def close(self) -> None:
        """Close the connections."""
        self._brokers.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _each(
        self,
        work: Callable[[int], Coroutine[Any, Any, dict[K, Outcome]]],
        timeout_ms: int | None,
        raise_errors: bool = True,
    ) -> dict[K, Outcome]:
        """Run `work` and return the outcome of each thing, or with `raise_errors` raise the first error."""
        results = self._brokers.run(work, timeout_ms)
        if raise_errors:
            for result in results.values():
                if isinstance(result, KafkaError):
                    raise result
        return results

    # --- the cluster --------------------------------------------------------------------------------------------------

    def describe_cluster(self, timeout_ms: int | None = None) -> ClusterDescription:
        """Brokers, controller and cluster id."""
        found = self._brokers.run(lambda deadline: self._brokers.metadata((), deadline), timeout_ms)
        return ClusterDescription(found.cluster_id, found.controller_id, tuple(found.brokers.values()))

    # --- topics -------------------------------------------------------------------------------------------------------

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[str, KafkaError | None]:
        """Create topics; TopicAlreadyExistsError, InvalidTopicError and others for those that cannot be."""
        wanted = {topic.name: topic for topic in topics}
        return self._each(
            lambda deadline: self._topics.create(wanted, validate_only, deadline), timeout_ms, raise_errors
        )

    def delete_topics(
        self, topics: Iterable[str], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
        return self._each(lambda deadline: self._topics.delete(topics, deadline), timeout_ms, raise_errors)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[str, KafkaError | None]:
        """Give topics more partitions; `counts` are the new totals."""
        return self._each(
            lambda deadline: self._topics.enlarge(counts, validate_only, deadline), timeout_ms, raise_errors
        )

    def list_topics(self, timeout_ms: int | None = None) -> list[str]:
        """The names of all topics, internal ones included, sorted."""
        return sorted(self._brokers.run(lambda deadline: self._brokers.metadata(None, deadline), timeout_ms).topics)

    def describe_topics(
        self, topics: Iterable[str] | None = None, timeout_ms: int | None = None
    ) -> list[TopicDescription]:
        """Describe these topics, or all. Raises UnknownTopicOrPartitionError if one of them does not exist."""
        names = None if topics is None else list(topics)
        return self._brokers.run(lambda deadline: self._topics.describe(names, deadline), timeout_ms)

    # --- records ------------------------------------------------------------------------------------------------------

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], isolation_level: int = 0, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time: "earliest", "latest" or Unix milliseconds for each partition.

        None where the partition has no record that young.
        """
        special = {"earliest": EARLIEST, "latest": LATEST}
        times = {TopicPartition(*tp): special[at] if isinstance(at, str) else at for tp, at in wanted.items()}
        return self._brokers.run(lambda deadline: self._records.offsets(times, isolation_level, deadline), timeout_ms)

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records before these offsets (-1: all that there are now). Returns the new first offsets."""
        return self._each(lambda deadline: self._records.delete(before, deadline), timeout_ms, raise_errors)

    # --- settings -----------------------------------------------------------------------------------------------------

    def describe_configs(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of topics, brokers or groups; `names` = only these."""
        wanted = list(resources)
        return self._brokers.run(lambda deadline: self._configs.describe(wanted, names, deadline), timeout_ms)

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change some settings and leave the others; None sets one back to its default."""
        return self._each(
            lambda deadline: self._configs.change(changes, validate_only, deadline), timeout_ms, raise_errors
        )

    def alter_configs(
        self,
        settings: Mapping[ConfigResource, Mapping[str, str | None]],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replace all settings of each resource: what is not named goes back to its default."""
        return self._each(
            lambda deadline: self._configs.replace(settings, validate_only, deadline), timeout_ms, raise_errors
        )

    # --- replicas -----------------------------------------------------------------------------------------------------

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first (KIP-455).

        None calls off a move that is under way. Returns when the moves have begun:
        `list_partition_reassignments` tells which go on.
        """
        return self._each(lambda deadline: self._replicas.move(reassignments, deadline), timeout_ms, raise_errors)

    def list_partition_reassignments(
        self, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """All partitions that are on their way to other brokers (KIP-455)."""
        return self._brokers.run(self._replicas.moves, timeout_ms)

    def elect_preferred_leaders(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[TopicPartition, KafkaError | None]:
        """Have the first replica of each of these partitions lead (KIP-460); no error if it leads already."""
        return self._each(
            lambda deadline: self._replicas.elect_preferred(partitions, deadline), timeout_ms, raise_errors
        )

    def describe_log_dirs(self, timeout_ms: int | None = None) -> dict[int, tuple[LogDirDescription, ...]]:
        """The log directories of each broker, and how large each replica in them is. Needs DESCRIBE of the cluster."""
        return self._brokers.run(self._replicas.log_dirs, timeout_ms)

    # --- groups -------------------------------------------------------------------------------------------------------

    def find_coordinator(self, group_id: str, timeout_ms: int | None = None) -> Node:
        """The broker that coordinates a group."""
        return self._brokers.run(lambda deadline: self._groups.find(group_id, deadline), timeout_ms)

    def list_consumer_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: int | None = None
    ) -> list[GroupListing]:
        """All groups of all brokers, sorted by id; `states` and `types` keep only those."""
        return self._brokers.run(lambda deadline: self._groups.list_all(states, types, deadline), timeout_ms)

    def describe_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: int | None = None, show_hidden: bool = False
    ) -> list[GroupDescription]:
        """Describe groups and their members, in this order. A group that does not exist has the state Dead.

        TopicAuthorizationError if you may not describe all topics of a consumer group; with `show_hidden=True` such a
        group comes without its members and state, with `is_hidden`.
        """
        wanted = list(group_ids)
        results = self._each(lambda deadline: self._groups.describe(wanted, deadline), timeout_ms)
        found = [group for name in wanted if isinstance(group := results[name], GroupDescription)]
        refusals = [] if show_hidden else [refusal for group in found if (refusal := refusal_of(group)) is not None]
        if refusals:
            raise refusals[0]
        return found

    def delete_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[str, KafkaError | None]:
        """Delete groups and their offsets: NonEmptyGroupError while they have members, GroupIdNotFoundError."""
        return self._each(lambda deadline: self._groups.delete(group_ids, deadline), timeout_ms, raise_errors)

    def remove_members_from_consumer_group(
        self,
        group_id: str,
        member_ids: Iterable[str] = (),
        group_instance_ids: Iterable[str] = (),
        reason: str = "removed by an administrator",
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Make members leave: dynamic ones by member id, static ones by instance id. One outcome for each.

        A member that is gone already counts as UnknownMemberIdError in its outcome; nothing is raised for it.
        """
        return self._brokers.run(
            lambda deadline: self._groups.remove_members(group_id, member_ids, group_instance_ids, reason, deadline),
            timeout_ms,
        )

    # --- ACLs ---------------------------------------------------------------------------------------------------------

    def create_acls(
        self, acls: Iterable[Acl], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[Acl, KafkaError | None]:
        """Create ACLs (KIP-140). One that is there already is no error."""
        return self._each(lambda deadline: self._acls.create(acls, deadline), timeout_ms, raise_errors)

    def describe_acls(self, wanted: AclFilter, timeout_ms: int | None = None) -> list[Acl]:
        """The ACLs that a filter finds: `AclFilter()` finds all."""
        return self._brokers.run(lambda deadline: self._acls.describe(wanted, deadline), timeout_ms)

    def delete_acls(
        self, filters: Iterable[AclFilter], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[AclFilter, list[Acl] | KafkaError]:
        """Remove the ACLs that each filter finds. Returns them."""
        return self._each(lambda deadline: self._acls.delete(filters, deadline), timeout_ms, raise_errors)

    # --- quotas -------------------------------------------------------------------------------------------------------

    def describe_client_quotas(
        self, wanted: QuotaEntity | None = None, strict: bool = False, timeout_ms: int | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of entities that have these names (KIP-546), or of all; with `strict` of `wanted` alone."""
        named = wanted or QuotaEntity()
        return self._brokers.run(lambda deadline: self._quotas.describe(named, strict, deadline), timeout_ms)

    def alter_client_quotas(
        self, changes: Changes, validate_only: bool = False, timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas, and remove those whose rate is None: `{QuotaEntity(user="ann"): {"producer_byte_rate": 1e6}}`."""
        return self._each(
            lambda deadline: self._quotas.alter(changes, validate_only, deadline), timeout_ms, raise_errors
        )

    # --- offsets of groups --------------------------------------------------------------------------------------------

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group: of these partitions, or of all. Partitions without one are left out."""
        wanted = None if partitions is None else [TopicPartition(*tp) for tp in partitions]
        return self._brokers.run(lambda deadline: self._groups.offsets(group_id, wanted, deadline), timeout_ms)

    def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set the committed offsets of a group that has no members; UnknownMemberIdError if it has some."""
        values = {
            TopicPartition(*tp): OffsetAndMetadata(at) if isinstance(at, int) else OffsetAndMetadata(*at)
            for tp, at in offsets.items()
        }
        return self._each(
            lambda deadline: self._groups.set_offsets(group_id, values, deadline), timeout_ms, raise_errors
        )

    def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets; GroupSubscribedToTopicError for topics that its members subscribe to."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        return self._each(
            lambda deadline: self._groups.delete_offsets(group_id, wanted, deadline), timeout_ms, raise_errors
        )

    # --- users --------------------------------------------------------------------------------------------------------

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, timeout_ms: int | None = None
    ) -> dict[str, dict[str, int]]:
        """The iterations of each SCRAM mechanism of these users, or of all. A user who has none is left out."""
        named = None if users is None else list(dict.fromkeys(users))
        return self._brokers.run(lambda deadline: self._users.describe(named, deadline), timeout_ms)

    def alter_user_scram_credentials(
        self,
        upsertions: Iterable[ScramUpsertion] = (),
        deletions: Iterable[ScramDeletion] = (),
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[str, KafkaError | None]:
        """Set and forget passwords. A user may be named once. Takes milliseconds of CPU for each password."""
        made = [upsertion(each, self._chance) for each in upsertions]
        doomed = [deletion(each) for each in deletions]
        return self._each(lambda deadline: self._users.alter(made, doomed, deadline), timeout_ms, raise_errors)
