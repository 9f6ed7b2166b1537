"""The arguments of processes that Ray starts: bytes that another build reads, older or newer."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import msgpack
import pytest

from actors.broker.spec import BrokerSpec, BrokerStart, Door
from actors.controller.spec import ControllerSpec, ControllerStart
from actors.links.codec import LinkError
from actors.links.versions import FIRST, LAST, OWN, UNTOLD, Spoken, VersionError, check_starter
from actors.members.deployment.spec import SupervisorSpec, SupervisorStart
from actors.monitor.spec import MonitorSpec, MonitorStart
from actors.offsets_partition.spec import ShardStart
from actors.runtime.logs import JSON, LogPlace
from actors.settings import SecurityProtocol
from actors.settings.secret import Secret

NEWER = Spoken(FIRST, LAST + 1, "9.9")
LOGS = LogPlace("/data/logs", "c", JSON)
DOORS = (
    Door("CLIENTS", "0.0.0.0", 9092, "kafka.example.com", 443, SecurityProtocol.SASL_SSL, "listeners"),
    Door("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1"),
)
STARTS: list[Any] = [
    BrokerStart(
        NEWER, BrokerSpec(2, "10.0.0.2", DOORS, "/data/broker-2", "/run/2.sock", {"a.b": "c"}), "coterie-c", LOGS
    ),
    ShardStart(NEWER, "/run/2.sock", "shard-2-7-1", LOGS, 2, -5),
    MonitorStart(NEWER, MonitorSpec("c", "coterie-c", "/data", "/data/secret", {"a.b": "c"}), LOGS),
    ControllerStart(
        NEWER, ControllerSpec("c", "/data", None, 3, 0, "/run", "/data/secret", {"a.b": "c"}, "9.9", {"d": "e"}, False)
    ),
    SupervisorStart(NEWER, "pool", "cluster", "h:1", {"security_protocol": '"SSL"'}, "actor", True),
]


def grown(value: Any) -> Any:
    """As a newer build sends it: each dataclass has a field more."""
    if is_dataclass(value):
        return [*(grown(getattr(value, each.name)) for each in fields(value)), "of a newer build"]
    return [grown(each) for each in value] if isinstance(value, tuple) else value


@pytest.mark.conformance("N-E-02")
@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
def test_what_a_process_is_told_is_read_by_its_own_build_and_by_an_older_one(start: Any) -> None:
    found = type(start).decoded(start.encoded())
    assert found == start
    assert type(found).decoded(msgpack.packb([1, *grown(start)])) == start


@pytest.mark.conformance("N-E-05")
@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
def test_what_a_process_is_told_is_no_pickle(start: Any) -> None:
    assert msgpack.unpackb(start.encoded())[:2] == [1, [NEWER.first, NEWER.last, NEWER.build]]
    with pytest.raises(LinkError, match="start link: "):
        type(start).decoded(b"\x80\x05")


@pytest.mark.conformance("XE-30")
def test_a_secret_is_not_sent_to_a_process_that_starts() -> None:
    settings: dict[str, Any] = {"ssl.key.password": Secret("swordfish")}
    start = BrokerStart(OWN, BrokerSpec(0, "h", (), "/d", "/s", settings), "n", LOGS)
    with pytest.raises(TypeError, match="Secret"):
        start.encoded()


@pytest.mark.conformance("N-E-05")
def test_a_supervisor_is_told_its_settings_as_a_record_has_them() -> None:
    spec = SupervisorSpec("pool", "cluster", "h:1", {"security_protocol": "SSL", "ssl_check_hostname": False})
    start = SupervisorStart.of(spec, OWN)
    assert start.settings == {"security_protocol": '"SSL"', "ssl_check_hostname": "false"}
    assert SupervisorStart.decoded(start.encoded()).spec == spec


def test_a_process_is_not_started_by_one_that_it_has_no_version_in_common_with() -> None:
    for starter in (OWN, UNTOLD, NEWER):
        check_starter(starter)
    with pytest.raises(
        VersionError, match=r"this process .*, and the one that has it started \(build 9\) speaks version 99"
    ):
        check_starter(Spoken(99, 99, "9"))
