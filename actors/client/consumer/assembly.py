"""The parts of a consumer, put together. `group.protocols` makes the member; no part knows its protocol.

Each runs in one of the two threads, which share `net.changes`:

    user_thread    who may come in, and how it waits and is woken      user's thread
    polling        what one poll does                                  user's thread
    participation  what the group wants done between two polls         user's thread
    commits        commits, and hearing of their ends                  user's thread
    recreation     topics that were deleted and created again          user's thread
    drain          takes records out of what was fetched               user's thread
    hindrance      why there are no records                            user's thread
    iteration      gives them one by one                               user's thread
    closing        the last things that a consumer does                user's thread
    lookups        offsets by time, topics                             asked by the user's thread, done on the loop
    seeking        where the program wants to go on                    user's thread
    positions      where the consumer stands in each partition         both, under the lock of `net.changes`
    watch          which topics matter, and new metadata of them       event loop
    fetcher        fetches ahead                                       event loop
    group/         the member, and the driver that acts for it         event loop
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from actors.client.config import network_settings
from actors.client.consumer.closing import Closing
from actors.client.consumer.commits import Commits
from actors.client.consumer.decode import deserializer
from actors.client.consumer.drain import Drain, by_topic
from actors.client.consumer.fetch_requests import FetchSettings
from actors.client.consumer.fetcher import Fetcher
from actors.client.consumer.hindrance import Hindrance
from actors.client.consumer.iteration import Iteration
from actors.client.consumer.lookups import Lookups
from actors.client.consumer.participation import Participation
from actors.client.consumer.polling import Polling
from actors.client.consumer.positions import RESET_TO, Positions
from actors.client.consumer.recreation import Recreations
from actors.client.consumer.seeking import Seeking
from actors.client.consumer.user_thread import UserThread
from actors.client.consumer.watch import Interest, Watch
from actors.client.group.driver import Driver
from actors.client.group.member import MakeMember, Member
from actors.client.group.protocols import make_member
from actors.client.net.changes import Changes
from actors.client.net.network import Network
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.client.settings import ConsumerConfig
from actors.runtime.environment import Chance, Environment


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a consumer. The network is not started yet: that takes the `watch`."""

    network: Network
    watch: Watch
    changes: Changes
    positions: Positions
    member: Member
    thread: UserThread
    drain: Drain
    commits: Commits
    participation: Participation
    hindrance: Hindrance
    polling: Polling
    iteration: Iteration
    lookups: Lookups
    seeking: Seeking
    closing: Closing


def assemble(config: ConsumerConfig, environment: Environment, protocols: Mapping[str, MakeMember]) -> Parts:
    """The parts of a consumer with these settings. Raises ConfigurationError and IllegalStateError."""
    positions = Positions()
    network = Network(network_settings(config), environment=environment)
    changes = Changes(network.now_ms)
    member = make_member(
        config, environment.kernel.pid(), network.jitter, lambda: _member_id(environment.chance), protocols
    )
    interest = Interest(member, positions)
    driver = Driver(member, network, changes, positions.topic_id)
    thread = UserThread(changes)
    fetcher = _fetcher(config, network, positions, changes, driver)
    drain = _drain(config, positions, changes)
    commits = Commits(config, network, driver, positions, thread, changes)
    participation = Participation(config, member, driver, positions, fetcher, commits, thread, changes)
    recreations = Recreations(
        positions,
        network.cluster,
        changes,
        RESET_TO[config.auto_offset_reset],
        lambda: fetcher.recreated,
        participation.recreated,
    )
    hindrance = Hindrance(network, interest.own, config.bootstrap_servers, creates=config.allow_auto_create_topics)
    polling = Polling(
        member,
        participation,
        commits,
        fetcher,
        drain,
        thread,
        changes,
        recreations,
        without_records=lambda: hindrance.warn(config.group_id),
    )
    iteration = Iteration(config.max_poll_records, member, positions, polling, drain, changes)
    return Parts(
        network=network,
        watch=Watch(network.cluster, interest, fetcher, recreations, driver),
        changes=changes,
        positions=positions,
        member=member,
        thread=thread,
        drain=drain,
        commits=commits,
        participation=participation,
        hindrance=hindrance,
        polling=polling,
        iteration=iteration,
        lookups=Lookups(config, network, driver, thread, changes),
        seeking=Seeking(positions, fetcher, changes),
        closing=Closing(iteration, participation, commits),
    )


def _member_id(chance: Chance) -> str:
    """An id as Kafka's client makes it: 22 characters (KIP-1082)."""
    return base64.urlsafe_b64encode(chance.randbytes(16)).rstrip(b"=").decode()


def _fetcher(
    config: ConsumerConfig, network: Network, positions: Positions, changes: Changes, driver: Driver
) -> Fetcher:
    async def committed(
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        if not config.group_id:
            return dict.fromkeys(partitions)
        return await driver.committed(partitions, config.request_timeout_ms)

    return Fetcher(
        network,
        positions,
        FetchSettings.of(config),
        changes,
        committed=committed,
        tell=driver.tell,
        may_fetch=lambda: driver.member.may_deliver(network.now_ms()),
    )


def _drain(config: ConsumerConfig, positions: Positions, changes: Changes) -> Drain:
    return Drain(
        positions,
        lock=changes.lock,
        reset_to=RESET_TO[config.auto_offset_reset],
        committed=config.reads_committed,
        check_crcs=config.check_crcs,
        key_of=by_topic(config.key_deserializer, deserializer),
        value_of=by_topic(config.value_deserializer, deserializer),
    )
