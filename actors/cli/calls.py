"""Asking a cluster: the Admin of a command, and what several commands ask of it."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from actors.cli import output
from actors.cli.command_config import client_settings, file
from actors.cli.errors import CliError
from actors.cli.options import names
from actors.cli.reset import parse_topics

if TYPE_CHECKING:
    from actors.client import Admin, TopicPartition
    from actors.client.admin.offset_plans import Log
    from actors.client.admin.types import TopicDescription

_OWN_SOURCE: Final = 1  # DYNAMIC_TOPIC_CONFIG (KIP-226)
_CONNECT_TIMEOUT_S: Final = 5.0
_SIZES_TIMEOUT_MS: Final = 5000
_HOW_TO_LOG_IN: Final = (
    "--command-config FILE names a properties file with that and the login, as the cluster's DATA_DIR/client.properties"
)


@contextmanager
def connect(bootstrap_server: str, timeout_ms: int) -> Iterator[Admin]:
    """An Admin for these brokers, closed at the end. Raises CliError at once if none of them listens."""
    from actors.client import Admin

    check_reachable(bootstrap_server)
    settings: dict[str, Any] = {"default_api_timeout_ms": timeout_ms, "request_timeout_ms": timeout_ms}
    settings |= {"client_id": "coterie-cli", **client_settings()}
    with hinting(), closing(Admin(bootstrap_servers=bootstrap_server, **settings)) as admin:
        yield admin


@contextmanager
def hinting() -> Iterator[None]:
    """Where the command's security is at fault, have the error name the option or the file that governs it."""
    from actors.client.errors import SaslAuthenticationError, SecurityProtocolError

    try:
        yield
    except SecurityProtocolError as error:
        raise CliError(str(error) if client_settings() else f"{error}; {_HOW_TO_LOG_IN}") from None
    except SaslAuthenticationError as error:
        raise CliError(f"{error} in --command-config {file()}" if file() else str(error)) from None


def check_reachable(bootstrap_server: str) -> None:
    """Raise CliError if no broker accepts connections. A client would wait for one until its timeout."""
    from actors.client.net.settings import parse_bootstrap

    try:
        addresses = parse_bootstrap(bootstrap_server)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    failures = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise CliError(f"no broker answers at {', '.join(failures)}: is it running, and is --bootstrap-server right?")


def check_topic(bootstrap_server: str, timeout_ms: int, topic: str, *, create: bool | None = None) -> None:
    """Raise CliError unless the topic exists; with `create` it is created. None: the command creates none."""
    from actors.client.admin.types import NewTopic
    from actors.client.errors import TopicAlreadyExistsError, TopicAuthorizationError, UnknownTopicOrPartitionError
    from placement.names import topic_name_error

    if illegal := topic_name_error(topic):
        raise CliError(illegal)
    with connect(bootstrap_server, timeout_ms) as admin:
        try:
            admin.describe_topics([topic])
            return
        except UnknownTopicOrPartitionError:
            pass
        except TopicAuthorizationError:
            raise CliError(_hidden(topic, "--consumer" if create is None else "--producer")) from None
        if not create:
            way = "`coterie topics list` shows those there are"
            if create is not None:
                way = f"`coterie topics create {topic}` makes it, and so does --create"
            raise CliError(f"there is no topic {topic!r}: {way}")
        with suppress(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic)])
    output.note(f"created topic {topic}")


def _hidden(topic: str, role: str) -> str:
    """The text for a topic that the user may not see; brokers do not tell it from one that does not exist."""
    return (
        f"there is no topic {topic!r}, or this user may not describe it (TOPIC_AUTHORIZATION_FAILED): an administrator "
        f"creates it, or grants the right with `coterie acls add {role} --topic {topic} --allow-principal User:NAME`"
    )


def groups_meant(admin: Admin, arguments: Iterable[str], given: Iterable[str], all_groups: bool) -> list[str]:
    """The groups a command is about: those named either way, or with --all-groups every one. Raises UsageError."""
    named = [*arguments, *given]
    if not all_groups:
        return names(named, (), "group")
    if named:
        raise click.UsageError("name groups or give --all-groups, not both")
    return [each.group_id for each in admin.list_consumer_groups()]


def existing_topics(admin: Admin, named: Iterable[str] | None = None) -> list[TopicDescription]:
    """Those of the named topics that exist, or all of them, by name."""
    from actors.client.admin import lookups

    return lookups.existing_topics(admin, named)


def partitions(admin: Admin, texts: Iterable[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC[:PARTITION,...]` name. Raises CliError for topics that do not exist."""
    from actors.client import TopicPartition

    wanted = parse_topics(texts)
    found = {topic.name: topic for topic in existing_topics(admin, wanted)}
    if missing := sorted(wanted.keys() - found.keys()):
        raise CliError(f"there is no topic {', '.join(missing)}")
    return [
        TopicPartition(name, number)
        for name, numbers in wanted.items()
        for number in (numbers if numbers is not None else [each.partition for each in found[name].partitions])
    ]


def own_configs(admin: Admin, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings each topic has of its own, with [hidden] for the values of secrets."""
    from actors.client.admin.types import ConfigResource
    from actors.settings.secret import HIDDEN
    from actors.wire.config_resources import ConfigResourceType

    if not topics:
        return {}
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics])
    return {
        resource.name: {
            entry.name: HIDDEN if entry.is_sensitive else entry.value or ""
            for entry in entries.values()
            if entry.source == _OWN_SOURCE
        }
        for resource, entries in found.items()
    }


def sizes(admin: Admin) -> dict[TopicPartition, dict[int, int]]:
    """The size in bytes of each replica, by broker. Empty, with a note, where brokers do not say."""
    from actors.client.errors import KafkaError

    try:
        dirs = admin.describe_log_dirs(timeout_ms=_SIZES_TIMEOUT_MS)
    except KafkaError as error:
        output.note(f"sizes are not known: {error}")
        return {}
    found: dict[TopicPartition, dict[int, int]] = {}
    for broker, folders in dirs.items():
        for folder in folders:
            for partition, replica in folder.replicas.items():
                if not replica.is_future:
                    found.setdefault(partition, {})[broker] = replica.size_bytes
    return found


def logs(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
    """The first and the end offset of each of these partitions that exists."""
    from actors.client.admin import lookups

    return lookups.logs(admin, partitions)


def logs_of_all(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Log]:
    """The offsets of these partitions. Raises CliError if one does not exist."""
    found = logs(admin, partitions)
    if missing := [f"{topic}-{number}" for topic, number in sorted(set(partitions) - found.keys())]:
        raise CliError(f"there is no partition {', '.join(missing)}")
    return found
