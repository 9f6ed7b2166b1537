"""`coterie acls`, with an Admin in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli import calls
from actors.cli.main import cli
from actors.security.acl import Acl, AclOperation, PatternType, PermissionType, ResourceType
from tests.support.fake_admin import FakeAdmin


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(calls, "connect", fake.connect)
    return fake


def run(*arguments: str, answer: str | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["acls", *arguments], input=answer)
    assert result.exit_code == code, result.output
    return result


def rows(admin: FakeAdmin) -> list[str]:
    """`TOPIC orders LITERAL: ALLOW READ User:a *`"""
    return [
        f"{acl.resource_type.name} {acl.name} {acl.pattern.name}: "
        f"{acl.permission.name} {acl.operation.name} {acl.principal} {acl.host}"
        for acl in admin.acls
    ]


def test_who_may_do_what(admin: FakeAdmin) -> None:
    run("add", "--allow-principal", "User:a", "--operation", "Read", "--operation", "DESCRIBE_CONFIGS", "--topic", "t")
    assert rows(admin) == [
        "TOPIC t LITERAL: ALLOW READ User:a *",
        "TOPIC t LITERAL: ALLOW DESCRIBE_CONFIGS User:a *",
    ]


def test_everything_if_no_operation_is_named_and_the_cluster_has_one_name(admin: FakeAdmin) -> None:
    run("add", "--allow-principal", "User:a", "--cluster", "--group", "g", "--resource-pattern-type", "prefixed")
    assert rows(admin) == [
        "GROUP g PREFIXED: ALLOW ALL User:a *",
        "CLUSTER kafka-cluster LITERAL: ALLOW ALL User:a *",
    ]


def test_hosts_belong_to_their_permission(admin: FakeAdmin) -> None:
    run(
        "add", "--allow-principal", "User:a", "--allow-host", "10.0.0.1", "--allow-host", "10.0.0.2",
        "--deny-principal", "User:b", "--operation", "write", "--transactional-id", "x",
    )  # fmt: skip
    assert rows(admin) == [
        "TRANSACTIONAL_ID x LITERAL: ALLOW WRITE User:a 10.0.0.1",
        "TRANSACTIONAL_ID x LITERAL: ALLOW WRITE User:a 10.0.0.2",
        "TRANSACTIONAL_ID x LITERAL: DENY WRITE User:b *",
    ]


def test_what_producers_and_consumers_need(admin: FakeAdmin) -> None:
    run("add", "--allow-principal", "User:p", "--producer", "--topic", "t", "--transactional-id", "x", "--idempotent")
    assert [row.split(": ALLOW ")[0] + " " + row.split()[4] for row in rows(admin)] == [
        "TOPIC t LITERAL WRITE",
        "TOPIC t LITERAL DESCRIBE",
        "TOPIC t LITERAL CREATE",
        "TRANSACTIONAL_ID x LITERAL WRITE",
        "TRANSACTIONAL_ID x LITERAL DESCRIBE",
        "CLUSTER kafka-cluster LITERAL IDEMPOTENT_WRITE",
    ]
    admin.acls.clear()
    run("add", "--allow-principal", "User:c", "--consumer", "--topic", "t", "--group", "g")
    assert rows(admin) == [
        "TOPIC t LITERAL: ALLOW READ User:c *",
        "TOPIC t LITERAL: ALLOW DESCRIBE User:c *",
        "GROUP g LITERAL: ALLOW READ User:c *",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["add", "--topic", "t"], "say who"),
        (["add", "--allow-principal", "User:a"], "name a resource"),
        (["add", "--allow-principal", "a", "--topic", "t"], "such as User:a"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "reed"], "'reed' is none of"),
        (["add", "--allow-principal", "User:a", "--group", "g", "--operation", "write"], "a Group has no WRITE"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--deny-host", "1.2.3.4"], "needs --deny-principal"),
        (["add", "--allow-principal", "User:a", "--consumer", "--topic", "t"], "--consumer needs --group"),
        (["add", "--allow-principal", "User:a", "--producer", "--group", "g"], "need --topic"),
        (
            ["add", "--allow-principal", "User:a", "--producer", "--topic", "t", "--operation", "read"],
            "leave --operation",
        ),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"], "match"),
        (["remove"], "name a resource"),
        (["remove", "--topic", "t", "--operation", "read"], "say whose"),
    ],
)
def test_what_is_missing_is_said(admin: FakeAdmin, arguments: list[str], text: str) -> None:
    assert text in run(*arguments, code=2).output
    assert admin.acls == []


def acl(name: str, operation: AclOperation = AclOperation.READ, **more: Any) -> Acl:
    values = {"pattern": PatternType.LITERAL, "principal": "User:a", "host": "*", "permission": PermissionType.ALLOW}
    return Acl(ResourceType.TOPIC, name, operation=operation, **(values | more))


def test_a_list(admin: FakeAdmin) -> None:
    admin.acls = [acl("t"), acl("to", pattern=PatternType.PREFIXED), acl("*", principal="User:b"), acl("u")]
    assert len(json.loads(run("list", "--format", "json").output)) == 4
    assert run("list", "--topic", "t").output.split()[7:] == ["TOPIC", "t", "LITERAL", "User:a", "*", "READ", "ALLOW"]
    matching = json.loads(
        run("list", "--topic", "topic", "--resource-pattern-type", "match", "--format", "json").output
    )
    assert [row["resource_name"] for row in matching] == ["*", "to"]
    mine = json.loads(run("list", "--principal", "User:b", "--format", "json").output)
    assert [row["resource_name"] for row in mine] == ["*"]
    assert run("list", "--group", "g").output == ""


def test_what_was_added_is_removed_with_the_same_options(admin: FakeAdmin) -> None:
    options = ["--allow-principal", "User:c", "--consumer", "--topic", "t", "--group", "g"]
    run("add", *options)
    other = acl("t")
    admin.acls.append(other)
    removed = json.loads(run("remove", *options, "--force", "--format", "json").output)
    assert len(removed) == 3
    assert admin.acls == [other]


def test_without_a_principal_all_of_a_resource_go_once_somebody_has_said_yes(admin: FakeAdmin) -> None:
    admin.acls = [acl("t"), acl("t", AclOperation.WRITE), acl("u")]
    asked = run("remove", "--topic", "t", answer="n\n", code=130)
    assert "ALLOW WRITE by User:a at * on LITERAL TOPIC t" in asked.output
    assert "Remove 2 ACLs?" in asked.output
    assert len(admin.acls) == 3
    run("remove", "--topic", "t", answer="y\n")
    assert admin.acls == [acl("u")]
    assert "there are no such ACLs" in run("remove", "--topic", "t").output


def test_what_people_may_expect_otherwise_is_said(admin: FakeAdmin) -> None:
    topic = ["--operation", "read", "--topic", "t"]
    denied = run("add", "--deny-principal", "User:a", *topic)
    assert "who may not READ may still DESCRIBE" in denied.stderr
    named = run("add", "--allow-principal", "User:a", "--allow-host", "10.0.0.0/8", *topic)
    assert "10.0.0.0/8 is no address" in named.stderr
    assert run("add", "--allow-principal", "User:a", "--allow-host", "::1", *topic).stderr == ""
