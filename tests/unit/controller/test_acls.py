"""The controller's decisions about ACLs, one by one."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest

from actors.controller.decisions import acls as decisions
from actors.controller.decisions.acls import create_acls, delete_acls, locked_out
from actors.links.acl_operations import AclEntry, AclFilterEntry, CreateAcls, CreatedAcls, DeleteAcls, DeletedAcls
from actors.links.control import CODEC, Answer, Call
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata

CONFIG = BrokerConfig.from_mapping({})
READ_T = AclEntry(2, "t", 3, "User:a", "*", 3, 3)


class Cluster:
    """Metadata that changes as the controller's does."""

    def __init__(self) -> None:
        self.metadata = ClusterMetadata()
        self._ids = itertools.count(1)

    def _decide(self, decide: Any, asked: Any) -> Any:
        result, records = decide(self.metadata, CONFIG, asked, lambda: next(self._ids).to_bytes(16, "big"))
        self.records = records
        for record in records:
            self.metadata.apply(record)
        return result

    def create(self, *entries: AclEntry) -> CreatedAcls:
        result: CreatedAcls = self._decide(create_acls, CreateAcls(entries))
        return result

    def codes(self, *entries: AclEntry) -> list[int]:
        return [acl.error_code for acl in self.create(*entries).acls]

    def delete(self, *filters: AclFilterEntry) -> DeletedAcls:
        result: DeletedAcls = self._decide(delete_acls, DeleteAcls(filters))
        return result

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.metadata.acls.values()]


def entry(**changes: Any) -> AclEntry:
    values = {
        "resource_type": 2,
        "name": "t",
        "pattern": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission": 3,
    }
    return AclEntry(**(values | changes))


def meant(**changes: Any) -> AclFilterEntry:
    values = {
        "resource_type": 1,
        "name": None,
        "pattern": 1,
        "principal": None,
        "host": None,
        "operation": 1,
        "permission": 1,
    }
    return AclFilterEntry(**(values | changes))


@pytest.mark.conformance("XC-15")
def test_an_acl_is_stored_once_however_often_it_is_made() -> None:
    cluster = Cluster()
    assert cluster.codes(READ_T, entry(name="u"), READ_T) == [0, 0, 0]
    assert cluster.rows == [(2, "t", 3, "User:a", "*", 3, 3), (2, "u", 3, "User:a", "*", 3, 3)]
    assert cluster.codes(READ_T) == [0]
    assert cluster.records == []


@pytest.mark.conformance("XC-15", "XC-16", "XC-17")
@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 4, "name": "t"},
        {"name": ""},
        *({"resource_type": code} for code in (0, 1, 8, -1, 127)),
        *({"pattern": code} for code in (0, 1, 2, 5)),
        *({"operation": code} for code in (0, 1, 15)),
        *({"permission": code} for code in (0, 1, 4)),
        *({"principal": text} for text in ("", "a", ":a", "User:", ":")),
        {"host": ""},
    ],
    ids=str,
)
def test_what_is_no_acl_is_refused_and_does_not_hold_up_the_others(wrong: dict[str, Any]) -> None:
    """Codes that Kafka does not know at all included."""
    cluster = Cluster()
    created = cluster.create(entry(**wrong), READ_T)
    assert [acl.error_code for acl in created.acls] == [ErrorCode.INVALID_REQUEST, 0]
    assert created.acls[0].error_message
    assert len(cluster.rows) == 1


@pytest.mark.conformance("XC-15", "XC-16")
def test_names_with_colons_and_the_cluster() -> None:
    cluster = Cluster()
    assert cluster.codes(entry(principal="User:a:b"), entry(resource_type=4, name="kafka-cluster")) == [0, 0]
    assert cluster.codes(entry(resource_type=7, name="User:a", operation=13), entry(host="some.name")) == [0, 0]


@pytest.mark.conformance("XC-05")
def test_a_host_that_is_no_address_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """It is stored, as in Kafka, and is nobody's."""
    cluster = Cluster()
    with caplog.at_level(logging.INFO):
        cluster.create(entry(host="some.name"), entry(host="::1"))
    assert [r.levelno for r in caplog.records] == [logging.INFO, logging.WARNING, logging.INFO]
    assert "'some.name'" in caplog.records[1].getMessage()
    assert "an ACL is made: ALLOW READ by 'User:a' at 'some.name'" in caplog.records[0].getMessage()


@pytest.mark.conformance("XC-20")
def test_each_filter_says_what_it_removed_and_nothing_is_removed_twice() -> None:
    cluster = Cluster()
    deny = entry(permission=2)
    cluster.create(READ_T, deny, entry(name="u"), entry(resource_type=3, name="g"))
    deleted = cluster.delete(meant(permission=2), meant(resource_type=2, name="t"), meant(principal="User:none"))
    assert [(each.error_code, each.acls) for each in deleted.filters] == [(0, (deny,)), (0, (READ_T, deny)), (0, ())]
    assert len(cluster.records) == 2
    assert [row[1] for row in cluster.rows] == ["u", "g"]


@pytest.mark.conformance("XC-17")
@pytest.mark.parametrize("code", ["resource_type", "pattern", "operation", "permission"])
def test_a_filter_with_an_unknown_code_is_refused_alone(code: str) -> None:
    cluster = Cluster()
    cluster.create(READ_T)
    for value in (0, 99):
        wrong, nothing = cluster.delete(meant(**{code: value}), meant(name="else")).filters
        assert (wrong.error_code, wrong.acls) == (ErrorCode.INVALID_REQUEST, ())
        assert (nothing.error_code, nothing.acls) == (0, ())
    assert len(cluster.rows) == 1


@pytest.mark.conformance("XC-19")
def test_filters_by_what_applies_to_a_name() -> None:
    cluster = Cluster()
    cluster.create(READ_T, entry(name="*"), entry(name="t", pattern=4), entry(name="topic"), entry(operation=2))
    (found,) = cluster.delete(meant(name="t", pattern=2, operation=3)).filters
    assert [(acl.name, acl.pattern) for acl in found.acls] == [("t", 3), ("*", 3), ("t", 4)]
    assert [row[5] for row in cluster.rows] == [3, 2], "to look for READ does not find ALL"


@pytest.mark.conformance("XC-22")
def test_there_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOST_CHANGES", 3)
    monkeypatch.setattr(decisions, "MOST_ACLS", 5)
    monkeypatch.setattr(decisions, "MOST_FILTERS", 2)
    cluster = Cluster()
    many = [entry(name=f"t{n}") for n in range(4)]
    assert cluster.codes(*many) == [0, 0, 0, ErrorCode.POLICY_VIOLATION]
    assert cluster.codes(*(entry(name=f"u{n}") for n in range(3))) == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert [each.error_code for each in cluster.delete(meant()).filters] == [ErrorCode.POLICY_VIOLATION]
    assert [each.error_code for each in cluster.delete(*[meant(name="t0")] * 3).filters] == [
        ErrorCode.POLICY_VIOLATION
    ] * 3
    assert len(cluster.rows) == 5
    assert [each.error_code for each in cluster.delete(meant(name="t0"), meant(name="u0")).filters] == [0, 0]


@pytest.mark.conformance("XC-22")
def test_calls_about_acls_travel_over_the_link() -> None:
    created = CreatedAcls((decisions.AclOutcome(0, None), decisions.AclOutcome(42, "wrong")))
    deleted = DeletedAcls((decisions.FilteredAcls(0, None, (READ_T,)),))
    for message in (
        Call(1, CreateAcls((READ_T, READ_T))),
        Call(2, DeleteAcls((meant(), meant(name="t")))),
        Answer(1, created),
        Answer(2, deleted),
    ):
        assert CODEC.decode(CODEC.encode(message)) == message


AUTHORIZED = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.mark.conformance("XB-44")
@pytest.mark.parametrize(
    ("settings", "out"),
    [
        ({}, False),
        (AUTHORIZED, True),
        (AUTHORIZED | {"super.users": "User:a"}, False),
        (AUTHORIZED | {"allow.everyone.if.no.acl.found": "true"}, False),
    ],
    ids=str,
)
def test_nobody_starts_a_cluster_in_which_nobody_may_do_anything(settings: dict[str, str], out: bool) -> None:
    config = BrokerConfig.from_mapping(settings)
    cluster = Cluster()
    assert (locked_out(cluster.metadata, config) is not None) == out
    cluster.create(READ_T)
    assert locked_out(cluster.metadata, config) is None
