"""Decisions about who may do what, and filters of ACLs: SECURITY.md, X-C.2 and X-C.4."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.security.acl import (
    ANONYMOUS,
    ANYBODY,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    normal_host,
)
from actors.security.authorizer import Authorizer

READ, WRITE, DESCRIBE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
DENY, ALLOW = PermissionType.DENY, PermissionType.ALLOW
ANN, BEN, HERE = "User:ann", "User:ben", "10.0.0.1"


def acl(
    name: str = "t",
    operation: AclOperation = READ,
    permission: PermissionType = ALLOW,
    pattern: PatternType = LITERAL,
    principal: str = ANN,
    host: str = "*",
    resource_type: ResourceType = TOPIC,
) -> Acl:
    return Acl(resource_type, name, pattern, principal, host, operation, permission)


def allowed(
    acls: list[Acl], operation: AclOperation = READ, name: str = "t", principal: str = ANN, host: str = HERE
) -> bool:
    return Authorizer(acls).allows(principal, host, operation, TOPIC, name)


# --- the rules, one by one ---


@pytest.mark.conformance("XC-01")
def test_what_nobody_has_allowed_is_denied_unless_everyone_may_do_what_no_acl_is_about() -> None:
    assert not allowed([])
    everyone = Authorizer([acl("t", principal=BEN)], allow_everyone=True)
    assert everyone.allows(ANN, HERE, READ, TOPIC, "other")
    assert not everyone.allows(ANN, HERE, READ, TOPIC, "t"), "one ACL of anybody ends it for everybody"
    denied_elsewhere = Authorizer([acl("t", WRITE, DENY, host="10.9.9.9")], allow_everyone=True)
    assert not denied_elsewhere.allows(BEN, HERE, READ, TOPIC, "t")


@pytest.mark.conformance("XC-01", "XG-05")
def test_a_denial_wins_over_what_is_allowed_in_whatever_pattern() -> None:
    for denial in (acl("t", permission=DENY), acl("*", permission=DENY), acl("", permission=DENY, pattern=PREFIXED)):
        assert not allowed([acl("t"), denial])
    assert not allowed([acl("t", pattern=PREFIXED), acl("topic", permission=DENY)], name="topic")
    assert allowed([acl("t", pattern=PREFIXED), acl("topic", permission=DENY)], name="topics")


@pytest.mark.parametrize("denied", ["fe80::1", "FE80:0:0::1", "fe80::1%eth0"])
def test_a_denial_of_an_address_did_not_hold_where_the_link_was_named(denied: str) -> None:
    for who in (ANN, ANYBODY):
        rules = [acl("t"), acl("t", permission=DENY, host=denied, principal=who)]
        assert not allowed(rules, host="fe80::1%eth0")
        assert not Authorizer(rules).allows_all(ANN, "fe80::1%eth0", READ, TOPIC)
        assert not Authorizer([acl("*"), acl("*", permission=DENY, host=denied)]).allows_any_topic(
            ANN, "fe80::1%eth0", READ
        )
        assert allowed(rules, host="fe80::2%eth0")
        assert allowed(rules, host="fe80::1%eth1") == ("%" in denied)


def test_what_an_address_may_another_machine_with_that_address_on_a_link_may_not() -> None:
    assert not allowed([acl("t", host="fe80::1")], host="fe80::1%eth0")
    assert allowed([acl("t", host="fe80::1%eth0")], host="fe80::1%eth0")
    assert not allowed([acl("t", host="fe80::1%eth0")], host="fe80::1")


@pytest.mark.conformance("XC-01")
def test_a_super_user_may_do_what_is_denied() -> None:
    authorizer = Authorizer([acl("t", AclOperation.ALL, DENY, principal=ANYBODY)], [ANN])
    assert authorizer.allows(ANN, HERE, READ, TOPIC, "t")
    assert not authorizer.allows(BEN, HERE, READ, TOPIC, "t")


@pytest.mark.conformance("XC-02")
def test_patterns() -> None:
    assert allowed([acl("*")], name="anything")
    assert allowed([acl("ord", pattern=PREFIXED)], name="orders")
    assert not allowed([acl("ord", pattern=PREFIXED)], name="or")
    assert not allowed([acl("*", pattern=PREFIXED)], name="orders")
    assert allowed([acl("*", pattern=PREFIXED)], name="*orders")
    assert not allowed([acl("T")])
    assert not allowed([acl("t", resource_type=GROUP)])


@pytest.mark.conformance("XC-03")
@pytest.mark.parametrize("given_operation", [READ, WRITE, AclOperation.DELETE, ALTER, AclOperation.ALL])
def test_what_else_an_operation_gives(given_operation: AclOperation) -> None:
    """To be allowed to read is to be allowed to describe; to be denied it is not."""
    assert allowed([acl(operation=given_operation)], DESCRIBE)
    denied = [acl(operation=DESCRIBE), acl(operation=given_operation, permission=DENY)]
    assert allowed(denied, DESCRIBE) == (given_operation is not AclOperation.ALL)
    assert not allowed([acl(operation=DESCRIBE)], given_operation)
    assert not allowed([acl(operation=AclOperation.CREATE)], DESCRIBE)
    assert allowed([acl(operation=AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE_CONFIGS)


@pytest.mark.conformance("XC-03", "XC-04", "XC-05")
def test_principals_and_hosts() -> None:
    assert allowed([acl(principal=ANYBODY)], principal=ANONYMOUS)
    assert not allowed([acl(principal=BEN)])
    assert allowed([acl(host=HERE)])
    assert not allowed([acl(host="10.0.0.2")])
    assert not allowed([acl(host="some.name")])
    assert allowed([acl(host="0:0:0:0:0:0:0:1")], host="::1")
    assert allowed([acl(host=HERE)], host="::ffff:10.0.0.1")
    assert normal_host("some.name") == "some.name"


@pytest.mark.conformance("XC-08")
def test_a_change_counts_at_once() -> None:
    """Nothing decided before is remembered."""
    authorizer = Authorizer()
    assert not authorizer.allows(ANN, HERE, READ, TOPIC, "orders")
    rules = [acl("ord", pattern=PREFIXED), acl("ord", pattern=PREFIXED, principal=BEN)]
    authorizer.change(rules, [])
    assert authorizer.allows(ANN, HERE, READ, TOPIC, "orders")
    authorizer.change([], [rules[0], rules[0], acl("unknown")])
    assert not authorizer.allows(ANN, HERE, READ, TOPIC, "orders")
    assert authorizer.allows(BEN, HERE, READ, TOPIC, "orders")
    authorizer.change([], rules)
    assert not authorizer.allows(BEN, HERE, READ, TOPIC, "orders")


@pytest.mark.conformance("XC-76")
def test_bit_fields() -> None:
    every = [acl("*", AclOperation.ALL, resource_type=kind) for kind in (TOPIC, GROUP, ResourceType.CLUSTER)]
    authorizer = Authorizer(every)
    of = {kind: authorizer.operations(ANN, HERE, kind, "x") for kind in (TOPIC, GROUP, ResourceType.CLUSTER)}
    assert of == {TOPIC: 3576, GROUP: 3400, ResourceType.CLUSTER: 8096}
    assert authorizer.operations(BEN, HERE, TOPIC, "x") == 0
    reader = Authorizer([acl("x")])
    assert reader.operations(ANN, HERE, TOPIC, "x") == 1 << 3 | 1 << 8
    assert reader.operations(ANN, HERE, ResourceType.CLUSTER, CLUSTER_NAME) == 0


# --- any topic ---


def any_topic(acls: list[Acl], **more: bool) -> bool:
    return Authorizer(acls, **more).allows_any_topic(ANN, HERE, WRITE)


@pytest.mark.conformance("XC-06")
def test_some_topic_may_be_written() -> None:
    assert not any_topic([])
    for one in (acl("t", WRITE), acl("t", WRITE, pattern=PREFIXED), acl("*", AclOperation.ALL)):
        assert any_topic([one])
    assert not any_topic([acl("t", READ), acl("t", WRITE, principal=BEN), acl("t", WRITE, host="10.9.9.9")])
    assert not any_topic([acl("t", WRITE, resource_type=GROUP)])
    assert Authorizer([acl("*", WRITE, DENY)], [ANN]).allows_any_topic(ANN, HERE, WRITE)


@pytest.mark.conformance("XC-06")
def test_what_is_allowed_and_denied_again_is_no_topic() -> None:
    assert not any_topic([acl("t", WRITE), acl("*", AclOperation.ALL, DENY)])
    assert not any_topic([acl("t", WRITE), acl("t", WRITE, DENY)])
    assert not any_topic([acl("topic", WRITE), acl("to", WRITE, DENY, PREFIXED)])
    assert not any_topic([acl("topic", WRITE, pattern=PREFIXED), acl("topic", WRITE, DENY, PREFIXED)])
    assert any_topic([acl("topic", WRITE, pattern=PREFIXED), acl("topic", WRITE, DENY)]), "there are longer names"
    assert any_topic([acl("topic", WRITE), acl("to", WRITE, DENY, PREFIXED), acl("other", WRITE)])
    assert any_topic([acl("*", WRITE), acl("to", WRITE, DENY, PREFIXED)])


@pytest.mark.conformance("XC-06")
def test_where_everyone_may_what_no_acl_is_about_there_is_always_some_topic() -> None:
    assert any_topic([acl("t", WRITE, DENY)], allow_everyone=True)
    assert not any_topic([acl("*", READ, principal=BEN)], allow_everyone=True)


# --- against a list ---

names = st.sampled_from(["", "a", "ab", "abc", "b", "*"])
acls = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    names.filter(bool),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from([ANN, BEN, ANYBODY]),
    st.sampled_from(["*", HERE, "::ffff:10.0.0.1", "10.0.0.2", "some.name"]),
    st.sampled_from([READ, WRITE, DESCRIBE, AclOperation.ALL, AclOperation.ALTER_CONFIGS]),
    st.sampled_from([DENY, ALLOW]),
)


_AT_HERE = ("*", HERE, "::ffff:10.0.0.1")


def naive(rules: set[Acl], principal: str, operation: AclOperation, name: str, everyone: bool) -> bool:
    """The rules of XC-01 to XC-03, read off a list."""
    implied = {
        DESCRIBE: {READ, WRITE, AclOperation.DELETE, ALTER},
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
    }.get(operation, set())
    applying = [rule for rule in rules if rule.resource_type is TOPIC and rule.applies_to(name)]
    meant = [rule for rule in applying if rule.principal in (principal, ANYBODY) and rule.host in _AT_HERE]
    if any(rule.permission is DENY and rule.operation in (operation, AclOperation.ALL) for rule in meant):
        return False
    if any(rule.permission is ALLOW and rule.operation in {operation, AclOperation.ALL, *implied} for rule in meant):
        return True
    return not applying and everyone


@pytest.mark.conformance("XC-07", "XG-05")
@given(st.sets(acls, max_size=12), st.sets(acls, max_size=6), st.booleans())
def test_decisions_are_those_of_a_list(added: set[Acl], removed: set[Acl], everyone: bool) -> None:
    authorizer = Authorizer([*added, *removed], allow_everyone=everyone)
    authorizer.change([], removed)
    left = added - removed
    for name in ("a", "ab", "abcd", "b", "c", "*"):
        for principal in (ANN, BEN):
            for operation in (READ, DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
                expected = naive(left, principal, operation, name, everyone)
                assert authorizer.allows(principal, HERE, operation, TOPIC, name) == expected


def naive_any_topic(rules: set[Acl], everyone: bool) -> bool:
    """XC-06, read off a list: whether ANN may write some topic."""
    topics = [rule for rule in rules if rule.resource_type is TOPIC]
    meant = [
        rule
        for rule in topics
        if rule.principal in (ANN, ANYBODY) and rule.host in _AT_HERE and rule.operation in (WRITE, AclOperation.ALL)
    ]
    denials = [rule for rule in meant if rule.permission is DENY]
    if any(rule.name == "*" and rule.pattern is LITERAL for rule in denials):
        return False
    if everyone and not any(rule.name == "*" and rule.pattern is LITERAL for rule in topics):
        return True
    for rule in meant:
        if rule.permission is ALLOW:
            everything = rule.name == "*" and rule.pattern is LITERAL
            covering = [
                denial
                for denial in denials
                if (denial.pattern is PREFIXED and rule.name.startswith(denial.name))
                or (denial.pattern is rule.pattern and denial.name == rule.name)
            ]
            if everything or not covering:
                return True
    return False


@pytest.mark.conformance("XC-06")
@given(st.sets(acls, max_size=12), st.booleans())
def test_some_topic_is_that_of_a_list(rules: set[Acl], everyone: bool) -> None:
    assert Authorizer(rules, allow_everyone=everyone).allows_any_topic(ANN, HERE, WRITE) == naive_any_topic(
        rules, everyone
    )


@pytest.mark.conformance("XC-82")
@given(st.sets(acls, max_size=6), st.booleans())
def test_who_may_do_everything_may_do_each_thing(rules: set[Acl], everyone: bool) -> None:
    """Nobody is let pass without a look at names who would be denied one."""
    authorizer = Authorizer(rules, allow_everyone=everyone)
    for operation in (READ, DESCRIBE):
        if authorizer.allows_all(ANN, HERE, operation, TOPIC):
            assert all(authorizer.allows(ANN, HERE, operation, TOPIC, name) for name in ("a", "ab", "abcd", "c", "*"))


@pytest.mark.conformance("XC-82")
def test_who_may_do_everything() -> None:
    assert Authorizer([acl("*", AclOperation.ALL)]).allows_all(ANN, HERE, READ, TOPIC)
    assert Authorizer([acl("*")]).allows_all(ANN, HERE, DESCRIBE, TOPIC)
    assert Authorizer([], [ANN]).allows_all(ANN, HERE, READ, TOPIC)
    assert Authorizer([], allow_everyone=True).allows_all(ANN, HERE, READ, TOPIC)
    assert not Authorizer([acl("*"), acl("t", permission=DENY)]).allows_all(ANN, HERE, READ, TOPIC)
    assert not Authorizer([acl("a", pattern=PREFIXED)]).allows_all(ANN, HERE, READ, TOPIC)
    assert not Authorizer([acl("t")], allow_everyone=True).allows_all(ANN, HERE, READ, TOPIC)


@pytest.mark.conformance("XC-22")
def test_an_acl_and_the_row_in_the_metadata() -> None:
    one = acl("a", WRITE, DENY, PREFIXED, BEN, HERE)
    assert one.row == (2, "a", 4, BEN, HERE, 4, 2)
    assert Acl.of_row(one.row) == one
    assert all(type(value) in (int, str) for value in one.row), "the log takes plain values"
    with pytest.raises(ValueError, match="99"):
        Acl.of_row((2, "a", 4, BEN, HERE, 99, 2))


class Watched(Acl):
    """An ACL that notes when it is asked for its permission, as each is that is looked at for a decision."""

    looked_at: ClassVar[list[str]] = []

    def __getattribute__(self, name: str) -> Any:
        if name == "permission":
            Watched.looked_at.append(super().__getattribute__("name"))
        return super().__getattribute__(name)


def watched(rules: list[Acl]) -> Authorizer:
    """An authorizer by whose ACLs no decision has been made yet."""
    made = Authorizer([Watched.of_row(rule.row) for rule in rules])
    Watched.looked_at.clear()
    return made


@pytest.mark.conformance("XC-07")
def test_ten_thousand_acls_are_not_walked() -> None:
    rules = [acl(f"topic-{n}", principal=f"User:{n}") for n in range(5_000)]
    rules += [acl(f"prefix-{n}-", pattern=PREFIXED, principal=f"User:{n}") for n in range(5_000)]
    authorizer = watched(rules)
    assert authorizer.allows("User:7", HERE, READ, TOPIC, "topic-7")
    assert authorizer.allows("User:8", HERE, READ, TOPIC, "prefix-8-topic")
    assert set(Watched.looked_at) == {"topic-7", "prefix-8-"}
    Watched.looked_at.clear()
    assert authorizer.allows("User:7", HERE, READ, TOPIC, "topic-7")
    assert Watched.looked_at == [], "what was decided is remembered"
    hosts = watched([acl("t", host=f"10.1.{n // 250}.{n % 250}") for n in range(5_000)])
    assert hosts.allows(ANN, "10.1.3.4", READ, TOPIC, "t")
    assert len(Watched.looked_at) == 2, "nor are those of a principal at other hosts: once for DENY, once for ALLOW"


@pytest.mark.conformance("XC-08")
def test_names_that_a_client_makes_up_do_not_fill_the_memory() -> None:
    authorizer = watched([acl("x", pattern=PREFIXED)])
    for n in range(100):
        for _ in range(2):
            assert authorizer.allows(ANN, HERE, READ, TOPIC, f"x{n}" + "y" * 1_000)
            assert Watched.looked_at, "it is decided anew: nothing of it was kept"
            Watched.looked_at.clear()


@pytest.mark.conformance("XC-08")
def test_what_is_decided_about_all_topics_is_decided_once() -> None:
    """A producer that asks for an id does not have a hundred thousand ACLs walked each time."""
    authorizer = watched([acl(f"topic-{n}", principal=ANN) for n in range(1_000)])
    assert not authorizer.allows_any_topic(ANN, HERE, WRITE)
    assert len(Watched.looked_at) >= 1_000
    assert not authorizer.allows_all(ANN, HERE, WRITE, TOPIC)
    Watched.looked_at.clear()
    for _ in range(2):
        assert not authorizer.allows_any_topic(ANN, HERE, WRITE)
        assert not authorizer.allows_all(ANN, HERE, WRITE, TOPIC)
    assert Watched.looked_at == []


@pytest.mark.conformance("XC-09")
def test_the_rule_that_decides_is_named() -> None:
    denial = acl("t", WRITE, DENY)
    authorizer = Authorizer([acl("t"), denial], [BEN])
    assert authorizer.rule(ANN, HERE, READ, TOPIC, "t") == acl("t")
    assert authorizer.rule(ANN, HERE, WRITE, TOPIC, "t") == denial
    assert authorizer.rule(ANN, HERE, ALTER, TOPIC, "t") == "no ACL allows it"
    assert authorizer.rule(ANN, HERE, READ, TOPIC, "other") == "no ACL is about the resource"
    assert authorizer.rule(BEN, HERE, READ, TOPIC, "t") == "super user"


# --- filters ---


@pytest.mark.conformance("XC-19")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (AclFilter(), {0, 1, 2, 3}),
        (AclFilter(TOPIC), {0, 1, 2}),
        (AclFilter(TOPIC, "abc", LITERAL), {0}),
        (AclFilter(TOPIC, "a", PREFIXED), {1}),
        (AclFilter(TOPIC, "a"), {1}),
        (AclFilter(TOPIC, "abc", PatternType.MATCH), {0, 1, 2}),
        (AclFilter(TOPIC, None, PatternType.MATCH), {0, 1, 2}),
        (AclFilter(TOPIC, "abc", PREFIXED), set()),
        (AclFilter(principal=BEN), {3}),
        (AclFilter(host=HERE), {2}),
        (AclFilter(operation=READ), {0, 3}),
        (AclFilter(permission=DENY), {1}),
    ],
)
def test_filters(asked: AclFilter, found: set[int]) -> None:
    rules = [
        acl("abc"),
        acl("a", WRITE, DENY, PREFIXED),
        acl("*", AclOperation.ALL, host=HERE),
        acl("g", principal=BEN, resource_type=GROUP),
    ]
    assert {number for number, rule in enumerate(rules) if asked.matches(rule)} == found
