"""The life of a group: members of one client come and go, by either protocol; their records and commits are checked."""

from __future__ import annotations

from itertools import chain
from typing import Any

import confluent_kafka

from tests.compat.consumer_members import described
from tests.compat.driving import Member, Records
from tests.compat.group_clients import GroupClient
from tests.compat.raw import create_topics
from tests.compat.support import numbered_records, wait_until
from tests.compat.test_group_protocols import ALL, PARTITIONS, committed, produce
from tests.compat.test_migration_live import type_of

RECORDS = 60


def committed_meanwhile(servers: str, name: str) -> dict[int, int] | None:
    """The committed offsets by partition; None where the coordinator has just gone."""
    try:
        return dict(committed(servers, name))
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != confluent_kafka.KafkaError.NOT_COORDINATOR:
            raise
        return None


class Life:
    """A group, which reads the topic of its name. Each `expect...` waits until it is so."""

    def __init__(self, servers: str, client: GroupClient, name: str) -> None:
        self.members: list[Member] = []
        self._servers, self._client, self._name = servers, client, name
        self._rounds = 0
        self._read_before: Records = []
        create_topics(servers, {name: PARTITIONS})

    def join(self, protocol: str) -> None:
        self.members.append(self._client.join(self._servers, self._name, protocol))

    def leave(self) -> None:
        """The oldest member leaves."""
        oldest = self.members.pop(0)
        self._read_before += oldest.seen()
        oldest.close()

    def expect_shares(self, *more: Member) -> None:
        """An equal share for each member, and everything once for all together."""
        sharing = [*self.members, *more]

        def divided() -> bool:
            owned = [each.owned() for each in sharing]
            return all(len(each) == PARTITIONS // len(sharing) for each in owned) and frozenset(chain(*owned)) == ALL

        wait_until(divided, what=f"a share for each of {len(sharing)}")

    def expect_records(self) -> None:
        """New records are read and committed."""
        produce(self._servers, self._name, RECORDS)
        self._rounds += 1
        wait_until(lambda: len(self.read()) >= self._rounds * RECORDS, what="all records")
        for each in self.members:
            each.commit()
        self.expect_commits()

    def read(self) -> Records:
        """All that present and past members have read."""
        return sorted(chain(self._read_before, *(each.seen() for each in self.members)))

    def produced(self) -> Records:
        return sorted(numbered_records(RECORDS) * self._rounds)

    def expect_commits(self) -> None:
        """All that was read is committed, and nothing of it lost."""
        wanted = dict.fromkeys(range(PARTITIONS), self._rounds * RECORDS // PARTITIONS)
        wait_until(lambda: committed_meanwhile(self._servers, self._name) == wanted, what="what was committed")

    def expect_type(self, kind: str) -> None:
        wait_until(lambda: type_of(self._servers, self._name) == f"{kind} Stable", what=f"a {kind} group at rest")

    def described(self) -> Any:
        """The group as its coordinator describes it."""
        return described(self._servers, self._name)

    def static_member(self, instance: str) -> Any:
        """The member of this instance id as its coordinator describes it; None if there is none."""
        return next((each for each in self.described().members if each.instance_id == instance), None)


def numbers(assignment: Any) -> frozenset[int]:
    """The partitions of an assignment as it is described."""
    return frozenset(chain(*(topic.partitions for topic in assignment.topic_partitions)))
