"""ACLs through a real broker and a real controller: our Admin makes them, and they outlive the controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.broker.spec import StartError
from actors.client import Admin
from actors.client.admin.types import NewTopic, ScramUpsertion
from actors.client.errors import KafkaError, TopicAuthorizationError
from actors.security.acl import ANONYMOUS, Acl, AclFilter, AclOperation, PatternType
from actors.settings import BrokerConfig
from actors.settings.secret import Secret
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from tests.support.acls import CLUSTER, TOPIC, allowed, forbidden
from tests.support.handler_helpers import AUTHORIZER
from tests.support.one_broker import World, create, world
from tests.support.runtime_helpers import until

READ, DESCRIBE, ALTER = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER


@asynccontextmanager
async def checked(path: Path, **settings: str) -> AsyncIterator[tuple[World, Admin]]:
    """A cluster in which everybody may do what no ACL is about."""
    async with world(path, authorizer_class_name=AUTHORIZER, allow_everyone_if_no_acl_found="true", **settings) as w:
        admin = await asyncio.to_thread(Admin, bootstrap_servers=f"127.0.0.1:{w.server.port}")
        try:
            yield w, admin
        finally:
            await asyncio.to_thread(admin.close)


async def code_of(w: World, name: str) -> int:
    client = await w.client()
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name)]
    client.send((m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9))
    answer: int = (await client.answer()).topics[0].error_code
    client.writer.close()
    return answer


@pytest.mark.conformance("XC-20", "XC-21")
async def test_acls_are_made_found_and_removed(tmp_path: Path) -> None:
    """A change that was answered holds for the next request."""
    async with checked(tmp_path) as (w, admin):
        client = await w.client()
        client.send(create("t"))
        await client.answer()
        assert await code_of(w, "t") == 0
        acls = [
            forbidden(DESCRIBE, TOPIC, "t"),
            allowed(READ, TOPIC, "other", by="User:a", at="10.0.0.1", pattern=PatternType.PREFIXED),
        ]
        made = await asyncio.to_thread(admin.create_acls, [*acls, acls[0]])
        assert made == dict.fromkeys(acls)
        assert await code_of(w, "t") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        client.send(create("u"))  # its image has no ACLs
        await client.answer()
        assert await code_of(w, "t") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await asyncio.to_thread(admin.describe_acls, AclFilter()) == acls
        found = await asyncio.to_thread(
            admin.describe_acls, AclFilter(TOPIC, "others", PatternType.MATCH, principal="User:a")
        )
        assert found == acls[1:]
        mine = AclFilter(principal=ANONYMOUS)
        assert await asyncio.to_thread(admin.delete_acls, [mine]) == {mine: acls[:1]}
        assert await code_of(w, "t") == 0
        assert await asyncio.to_thread(admin.describe_acls, AclFilter()) == acls[1:]


@pytest.mark.conformance("XC-12", "XC-13")
async def test_acls_outlive_the_controller_and_the_broker(tmp_path: Path) -> None:
    async with checked(tmp_path) as (w, admin):
        await asyncio.to_thread(admin.create_acls, [forbidden(DESCRIBE, TOPIC, "t")])
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        w.stop_controller()
        assert await code_of(w, "t") == denied, "without a controller the last image holds"
        await w.start_controller()
        await until(lambda: w.server.registration.link.connected)
        await w.server.stop()
        await w.start_broker()
        assert await code_of(w, "t") == denied, "a broker that starts has the ACLs before it listens"


@pytest.mark.conformance("XC-15", "XC-16")
async def test_what_is_no_acl_is_refused_by_the_broker(tmp_path: Path) -> None:
    async with checked(tmp_path) as (_, admin):
        good, bad = allowed(READ, TOPIC, "t", by="User:a"), allowed(READ, TOPIC, "t", by="nobody")

        def make() -> dict[Acl, KafkaError | None]:
            return admin.create_acls([bad, good], raise_errors=False)

        made = await asyncio.to_thread(make)
        assert made[good] is None
        assert "'nobody' is no Type:name" in str(made[bad])
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            await asyncio.to_thread(admin.create_acls, [bad])


@pytest.mark.conformance("XC-14")
async def test_who_may_not_alter_the_cluster_makes_no_acls(tmp_path: Path) -> None:
    async with checked(tmp_path) as (w, admin):
        await asyncio.to_thread(admin.create_acls, [allowed(DESCRIBE, CLUSTER)])

        def attempt(call: Any) -> None:
            with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                call()

        await asyncio.to_thread(attempt, lambda: admin.create_acls([allowed(ALTER, CLUSTER)]))
        await asyncio.to_thread(attempt, lambda: admin.delete_acls([AclFilter()]))
        assert len(await asyncio.to_thread(admin.describe_acls, AclFilter())) == 1
        assert len(w.metadata.acls) == 1


async def test_the_controller_says_who_has_changed_what(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with checked(tmp_path) as (w, admin):
        with caplog.at_level(logging.INFO, "actors.controller"):
            await asyncio.to_thread(admin.create_acls, [forbidden(DESCRIBE, TOPIC, "t")])
            client = await w.client()
            client.send(create("u"))
            await client.answer()
        said = [record.getMessage() for record in caplog.records]
        assert "CreateAcls by 'User:ANONYMOUS' at broker 0: 1 records" in said
        assert "CreateTopics by 'User:ANONYMOUS' at broker 0: 1 records" in said
        assert "an ACL is made: DENY DESCRIBE by 'User:ANONYMOUS' at '*' on LITERAL Topic 't'" in said


async def test_a_client_is_told_of_the_right_that_it_lacks(tmp_path: Path) -> None:
    async with checked(tmp_path) as (_, admin):
        await asyncio.to_thread(admin.create_acls, [forbidden(DESCRIBE, TOPIC, "t")])

        def attempt() -> None:
            with pytest.raises(TopicAuthorizationError):
                admin.describe_topics(["t"])

        await asyncio.to_thread(attempt)


@pytest.mark.conformance("XC-11")
async def test_a_broker_that_would_ask_nobody_for_rights_is_not_let_in(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.server.stop()
        w.settings["authorizer.class.name"] = AUTHORIZER
        with pytest.raises(StartError, match=r"all brokers of a cluster have the same"):
            await w.start_broker()


@pytest.mark.conformance("XC-14")
async def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    assert BrokerConfig.from_mapping({})["authorizer.class.name"] == ""
    async with world(tmp_path) as w:
        admin = await asyncio.to_thread(Admin, bootstrap_servers=f"127.0.0.1:{w.server.port}")

        def attempt() -> None:
            for call in (lambda: admin.describe_acls(AclFilter()), lambda: admin.create_acls([allowed(READ, TOPIC)])):
                with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
                    call()
            admin.close()

        await asyncio.to_thread(attempt)


LOGIN = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "SCRAM-SHA-256",
    "super_users": f"User:root;{ANONYMOUS}",
}


async def test_users_who_log_in_may_do_what_their_acls_say(tmp_path: Path) -> None:
    """From the first administrator to two users of whom one may see a topic, and neither make ACLs."""
    async with world(tmp_path, authorizer_class_name=AUTHORIZER, **LOGIN) as w:

        def as_user(name: str) -> Admin:
            port = w.server.socket_server.ports["LOGIN"]
            return Admin(
                bootstrap_servers=f"127.0.0.1:{port}",
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-256",
                sasl_plain_username=name,
                sasl_plain_password=f"{name}'s",
            )

        def begin() -> None:
            with Admin(bootstrap_servers=f"127.0.0.1:{w.server.socket_server.ports['PLAINTEXT']}") as first:
                users = [ScramUpsertion(name, Secret(f"{name}'s")) for name in ("root", "ann", "ben")]
                first.alter_user_scram_credentials(upsertions=users)

        def rule() -> None:
            with as_user("root") as root:
                root.create_topics([NewTopic("t", 1, 1)])
                root.create_acls([allowed(READ, TOPIC, "t", by="User:ann")])

        def use() -> None:
            with as_user("ann") as ann, as_user("ben") as ben:
                assert ann.list_topics() == ["t"]
                assert ben.list_topics() == []
                with pytest.raises(TopicAuthorizationError):
                    ben.describe_topics(["t"])
                for user in (ann, ben):
                    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                        user.create_acls([allowed(READ, TOPIC, "t", by="User:ben")])

        for step in (begin, rule, use):
            await asyncio.to_thread(step)
