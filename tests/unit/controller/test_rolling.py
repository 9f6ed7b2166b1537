"""A rolling restart: the settings that it may change, the settings after it, and the order of its steps."""

from __future__ import annotations

import socket
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from actors.controller import settings_in_force
from actors.controller.rolling import Plan, Roll, planned
from actors.controller.settings_in_force import Changed
from actors.controller.spec import ControllerSpec
from actors.links.status import BrokerStatus, ClusterStatus
from actors.runtime.ray_runtime import ClusterError
from actors.settings import LINKS, BrokerConfig, SettingError

LOGIN = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "coterie.ssl.own.certificates": "true"}


def spec(host: str | None = None, port: int | None = 9092, **config: str) -> ControllerSpec:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    return ControllerSpec("c", "/data", host, 3, port, "", "/data/secret", settings, "v")


def plan(before: ControllerSpec, **changes: str | None) -> Plan:
    return planned(before, 3, {name.replace("_", "."): text for name, text in changes.items()})


def after(before: ControllerSpec, changed: Plan) -> ControllerSpec:
    return before.with_settings(changed.changed)


def test_what_is_not_named_stays_and_what_is_taken_back_has_its_default() -> None:
    before = spec(max_connections="9", group_max_size="8", offsets_topic_replication_factor="1")
    changed = plan(before, max_connections=None, num_partitions="4").changed
    assert changed == Changed({"group.max.size": "8", "num.partitions": "4", "offsets.topic.replication.factor": "1"})


def test_from_plaintext_to_sasl_ssl_in_two_steps() -> None:
    """The links take both for one step, because brokers that have changed and others have to speak to each other."""
    both = plan(spec(), listeners="PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9192", **LOGIN_NAMES)
    assert both.changed.effective[LINKS] == "both"
    assert LINKS not in both.changed.config
    assert any(f"{LINKS} is both" in note for note in both.notes)
    again = plan(after(spec(), both), max_connections="9")
    assert again.changed.effective[LINKS] == "both", "the first step has not come to its end everywhere"
    middle = replace(after(spec(), both), everywhere=True)
    last = plan(middle, listeners="SASL_SSL://127.0.0.1:9192")
    assert last.changed.transition == {}
    assert BrokerConfig.from_mapping(last.changed.effective).link_security == "tls"
    back = plan(replace(after(middle, last), everywhere=True), listeners=None, sasl_enabled_mechanisms=None)
    assert back.changed.effective[LINKS] == "both"


def test_a_cut_off_broker_is_waited_for_as_long_as_it_was_told_until_all_have_another_value() -> None:
    """The controller went by the new value at once: a broker that still served alone was replaced."""
    name = "coterie.broker.isolated.ms"

    def waits_ms(of: ControllerSpec) -> int:
        return of.of_controller.integer(name)

    before = spec(coterie_broker_isolated_ms="60000")
    lower = plan(before, coterie_broker_isolated_ms="5000")
    assert lower.changed.effective[name] == "5000", "brokers are told the new value"
    under_way = after(before, lower)
    assert waits_ms(under_way) == 60_000
    again = after(under_way, plan(under_way, coterie_broker_isolated_ms="20000"))
    assert waits_ms(again) == 60_000, "one from before both may be cut off"
    done = under_way.with_settings(lower.changed.taken_everywhere())
    assert (waits_ms(done), done.everywhere) == (5_000, True)
    higher = after(done, plan(done, coterie_broker_isolated_ms="90000"))
    assert waits_ms(higher) == 90_000, "before the first broker serves alone for so long"


def test_a_controller_of_an_earlier_build_is_told_of_a_shorter_time_as_before() -> None:
    """Ray pickles a spec as the values of the fields that its build has, in their order."""
    whole = spec(coterie_broker_isolated_ms="60000")
    told = object.__new__(ControllerSpec)
    told.__setstate__([getattr(whole, each.name) for each in fields(whole)[:-1]])  # type: ignore[attr-defined]
    assert plan(told, coterie_broker_isolated_ms="5000").changed.former == {"coterie.broker.isolated.ms": "60000"}


LOGIN_NAMES = {name.replace(".", "_"): text for name, text in LOGIN.items()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("broker.session.timeout.ms", "9000"),
        ("coterie.actor.start", "plain"),
        ("coterie.debug.core", "true"),
        ("coterie.secret.file", "/etc/secret"),
    ],
)
def test_what_a_cluster_is_started_with_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=rf"^{name} cannot change while the cluster runs, because .*: stop it"):
        planned(spec(), 3, {name: value})
    assert planned(spec(), 3, {name: None}).changed.config == planned(spec(), 3, {}).changed.config


@pytest.mark.conformance("XE-03")
def test_certificates_of_the_operators_are_those_of_a_start() -> None:
    files = {"coterie.internal.ssl.keystore.location": "/k", "coterie.internal.ssl.truststore.location": "/t"}
    refused = (
        r"^coterie\.internal\.ssl\.keystore\.location cannot change .* would not trust those that have not: stop it"
    )
    with pytest.raises(SettingError, match=refused):
        planned(spec(), 3, files)
    with pytest.raises(SettingError, match=refused):
        planned(spec(**files), 3, dict.fromkeys(files))
    assert planned(spec(**files), 3, {LINKS: "tls"}).changed.effective[LINKS] == "both"


def test_settings_are_checked_as_at_a_start() -> None:
    with pytest.raises(SettingError, match=r"unknown setting 'group\.max\.sise'"):
        plan(spec(), group_max_sise="3")
    with pytest.raises(SettingError, match=r"ssl\.key\.password is a secret"):
        plan(spec(), ssl_key_password="pa$$")
    with pytest.raises(ClusterError, match=r"port 9094 is in both"):
        plan(spec(), listeners="PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9094", **LOGIN_NAMES)


def test_an_open_listener_is_refused_unless_there_was_one_like_it() -> None:
    opened = {"listeners": "PLAINTEXT://0.0.0.0:9092"}
    with pytest.raises(ClusterError, match="asks for no authentication"):
        planned(spec(), 3, opened)
    with pytest.warns(UserWarning, match="asks for no authentication"):
        known = after(spec(), planned(spec(), 3, opened, insecure=True))
    plan(known, max_connections="7")  # it was wanted then
    with pytest.raises(ClusterError, match=r"on 10\.0\.0\.7 asks for no authentication"):
        planned(known, 3, {"listeners": None}, {"127.0.0.1", "10.0.0.7"})
    plan(known, listeners="INTERNAL://0.0.0.0:9092", listener_security_protocol_map="INTERNAL:PLAINTEXT")


def test_a_port_that_is_taken_is_found_before_anything_is_changed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"cannot listen on 127.0.0.1:{port}, which listeners chose"):
            plan(spec("127.0.0.1"), listeners=f"PLAINTEXT://127.0.0.1:{port}")
        plan(spec("127.0.0.1", port), listeners=f"PLAINTEXT://127.0.0.1:{port}")  # the cluster itself has it


def test_what_was_changed_is_told_to_who_starts_the_cluster_without_it(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    assert settings_in_force.kept(tmp_path) is None
    changed = Changed({"listeners": "SSL://:1", "num.partitions": "3"}, {LINKS: "both"})
    for each in (replace(changed, former={"a": "1"}), changed):
        settings_in_force.keep(tmp_path, each)
        assert settings_in_force.kept(tmp_path) == each
    assert settings_in_force.forgotten(tmp_path, {"listeners": "SSL://:1", "num.partitions": "3"}) == []
    (note,) = settings_in_force.forgotten(tmp_path, {"listeners": "PLAINTEXT://:1", "max.connections": "2"})
    assert note == "not as they were changed while the cluster ran: listeners, max.connections, num.partitions"
    settings_in_force.drop(tmp_path)
    assert settings_in_force.forgotten(tmp_path, {}) == []


class Asked:
    """Stands in for the controller; broker 1 does not run."""

    def __init__(self, **config: str) -> None:
        self.done: list[Any] = []
        self.spec = spec(**config)

    def __call__(self, method: str, *arguments: Any, within_s: float) -> Any:
        if method == "in_force":
            return self.spec, 3
        if method == "status":
            rows = (BrokerStatus(i, "h", 9092 + i, None, 0, i != 1, None, None) for i in range(3))
            return ClusterStatus("c", 0, tuple(rows))
        self.done.append((method, *arguments[:1]))
        return None


def rolled(asked: Asked) -> list[Any]:
    back: list[int] = []
    Roll(asked, back.append, 5.0).restart_all()
    assert back == [1, 0, 2]
    return asked.done


RESTARTS = [
    ("restart_broker", 1),
    ("restart_broker", 0),
    ("restart_broker", 2),
    ("elect_preferred",),
    ("restarted_all",),
]


def test_who_does_not_run_comes_first() -> None:
    assert rolled(Asked()) == RESTARTS


def test_a_broker_that_dies_while_the_order_is_made_is_restarted_too() -> None:
    class Dying(Asked):
        looks = 0

        def __call__(self, method: str, *arguments: Any, within_s: float) -> Any:
            found = super().__call__(method, *arguments, within_s=within_s)
            if method != "status":
                return found
            self.looks += 1
            return replace(found, brokers=tuple(replace(b, alive=b.id == 0 or self.looks == 1) for b in found.brokers))

    asked = Dying()
    Roll(asked, lambda _: None, 5.0).restart_all()
    assert sorted(each[1] for each in asked.done if each[0] == "restart_broker") == [0, 1, 2]


@pytest.mark.conformance("XE-06")
def test_a_new_secret_is_known_by_all_before_it_is_used_and_the_old_one_ends_after_all_have_restarted() -> None:
    asked = Asked()
    assert Roll(asked, lambda _: None, 5.0).new_secret() == ()
    assert asked.done == [("begin_new_secret",), ("use_new_secret",), *RESTARTS, ("forget_old_secret",)]


@pytest.mark.conformance("XE-06")
def test_certificates_follow_the_old_secret_until_clients_have_been_told() -> None:
    asked = Asked(coterie_ssl_own_certificates="true")
    roll = Roll(asked, lambda _: None, 5.0)
    (note,) = roll.new_secret()
    assert "give clients the new ca.pem" in note
    assert asked.done == [("begin_new_secret",), ("use_new_secret",), *RESTARTS]
    asked.done.clear()
    roll.forget_old_secret()
    assert asked.done == [("forget_old_secret",), *RESTARTS, ("write_authority",)]
