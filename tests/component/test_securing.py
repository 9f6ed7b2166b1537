"""The additions of `--secure` to a start, and starts that need `--insecure`. No Ray is started."""

from __future__ import annotations

import asyncio
import ssl
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from actors.broker.entrance.certificates import ListenerTls
from actors.broker.spec import StartError
from actors.controller.first_users import log_path, take
from actors.controller.listeners import plan_listeners, refuse_open
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.preparation import prepare_folder
from actors.controller.securing import Administrator, leave_users, secured, write_authority
from actors.links.secret import Secrets
from actors.runtime.environment import REAL
from actors.runtime.ray_runtime import ClusterError
from actors.security.authority import CLIENTS, Authority
from actors.security.scram import ScramCredential, ScramMechanism, salted_password
from actors.security.tls import ClientTls, client_context
from actors.settings import BrokerConfig, SecurityProtocol, SettingError, parse_properties
from actors.settings.authorization import STANDARD_AUTHORIZER
from placement.records import ClusterRecord
from tests.support.one_broker import World

SECRET = b"s" * 32


def test_a_secure_cluster_has_tls_logins_acls_and_an_administrator() -> None:
    config = BrokerConfig.from_mapping(secured({}, "127.0.0.1", 9092))
    (listener,) = config.listeners
    assert (listener.protocol, listener.host, listener.port) == (SecurityProtocol.SASL_SSL, "127.0.0.1", 9092)
    assert config.for_listener("SASL_SSL").items_of("sasl.enabled.mechanisms") == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert config.text("authorizer.class.name")
    assert config.text("super.users") == "User:admin"
    assert config.link_security.encrypts


def test_what_is_set_holds() -> None:
    given = {
        "listeners": "OUTER://h:1,INNER://h:9",
        "listener.security.protocol.map": "OUTER:SSL,INNER:SASL_SSL",
        "super.users": "User:ops",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    made = secured(given, None, None)
    assert made["super.users"] == "User:ops;User:admin"
    assert {name: made[name] for name in given if name != "super.users"} == {
        name: text for name, text in given.items() if name != "super.users"
    }


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_listener_without_tls_contradicts_it(protocol: str) -> None:
    given = {
        "listeners": f"OUTER://h:1,{protocol}://h:2",
        "listener.security.protocol.map": f"OUTER:SSL,{protocol}:{protocol}",
    }
    with pytest.raises(ClusterError, match=f"--secure and listener {protocol}"):
        secured(given, None, None)
    with pytest.raises(SettingError):
        secured({"super.users": "nobody"}, None, None)


def test_a_new_administrator_logs_in_by_the_file_and_by_nothing_else(tmp_path: Path) -> None:
    secret = prepare_folder(tmp_path)
    admin = Administrator(tmp_path, REAL.chance)
    leave_users(tmp_path, [], admin, REAL.chance)
    assert not admin.properties.exists(), "it stands for a cluster that runs"
    log = StandaloneLog(log_path(tmp_path))
    take(tmp_path, log, REAL.chance)
    admin.write(secret)
    assert stat.S_IMODE(admin.properties.stat().st_mode) == 0o600
    text = admin.properties.read_text()
    password = text.partition('password="')[2].partition('"')[0]
    assert len(password) >= 32
    for mechanism in ScramMechanism:
        salt, stored_key, server_key, iterations = log.committed.scram["admin", mechanism.code]
        salted = salted_password(mechanism, password, salt, iterations)
        made = ScramCredential.of(mechanism, salted, salt, iterations)
        assert (made.stored_key, made.server_key) == (stored_key, server_key)
    log.close()
    assert password not in "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file() and path != admin.properties
    )
    assert not Administrator(tmp_path, REAL.chance).users(), "the next start has the same"


def test_a_cluster_that_was_open_gets_its_administrator(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    log = StandaloneLog(log_path(tmp_path))
    log.append([ClusterRecord("c")], log.next_epoch)
    log.close()
    leave_users(tmp_path, [], Administrator(tmp_path, REAL.chance), REAL.chance)
    again = StandaloneLog(log_path(tmp_path))
    assert {user for user, _ in again.committed.scram} == {"admin"}
    assert again.committed.cluster_id == "c"
    again.close()


def test_kafkas_names_stand_in_the_file(tmp_path: Path) -> None:
    secret = prepare_folder(tmp_path)
    admin = Administrator(tmp_path, REAL.chance)
    admin.write(secret)
    given = parse_properties(admin.properties.read_text())
    assert given["security.protocol"] == "SASL_SSL"
    assert given["ssl.truststore.type"] == "PEM"
    trusting = ssl.create_default_context(cafile=given["ssl.truststore.location"])
    assert trusting.get_ca_certs()


def own(config: dict[str, str]) -> ListenerTls:
    found = BrokerConfig.from_mapping(
        {"listeners": "SSL://h:1", "listener.security.protocol.map": "SSL:SSL", **config}
    ).for_listener("SSL")

    def made() -> object:
        return Authority(SECRET, CLIENTS).issue("broker-0", ["localhost"])

    return ListenerTls("SSL", SecurityProtocol.SSL, lambda: found, lambda: 1_800_000_000_000, made)  # type: ignore[arg-type]


async def test_a_broker_without_a_store_makes_its_certificate_if_it_is_to() -> None:
    tls = own({"coterie.ssl.own.certificates": "true"})
    context = tls.context
    await tls.check()
    assert tls.context is context, "it is made once"
    with pytest.raises(StartError, match=r"ssl\.keystore\.location"):
        own({})


@pytest.mark.parametrize(
    ("host", "nodes", "refused"),
    [
        ("127.0.0.1", (), False),
        ("0.0.0.0", (), True),
        ("10.0.0.5", (), True),
        (None, ("127.0.0.1",), False),
        (None, ("127.0.0.1", "10.0.0.5"), True),
    ],
)
def test_a_listener_that_asks_nobody_is_not_opened_to_other_machines(
    host: str | None, nodes: tuple[str, ...], refused: bool
) -> None:
    doors = plan_listeners(BrokerConfig.from_mapping({}), host, 9092)
    safe = plan_listeners(BrokerConfig.from_mapping(secured({}, host, 9092)), host, 9092)
    refuse_open(safe, nodes)
    if refused:
        with pytest.raises(ClusterError, match=r"--secure .*--insecure"):
            refuse_open(doors, nodes)
    else:
        refuse_open(doors, nodes)


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({}, True),
        ({"ssl.client.auth": "requested"}, True),
        ({"ssl.client.auth": "required"}, False),
        ({"listener.name.ssl.ssl.client.auth": "required"}, False),
        ({"authorizer.class.name": STANDARD_AUTHORIZER}, False),
    ],
)
def test_nor_is_one_that_encrypts_and_asks_for_no_certificate(more: dict[str, str], refused: bool) -> None:
    config = BrokerConfig.from_mapping({"listeners": "SSL://0.0.0.0:9093", **more})
    doors = plan_listeners(config, None, None)
    with pytest.raises(ClusterError, match="asks for no authentication") if refused else nullcontext():
        refuse_open(doors)


@pytest.mark.conformance("XE-06")
async def test_clients_see_the_former_authority_until_the_former_secret_is_forgotten(tmp_path: Path) -> None:
    older, newer = b"o" * 32, b"n" * 32
    w = World(
        tmp_path,
        listeners="PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SECURE:SSL",
        coterie_ssl_own_certificates="true",
    )

    async def trusts(pem: str) -> bool:
        context = client_context(ClientTls(cadata=pem))
        port = w.server.socket_server.ports["SECURE"]
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        except ssl.SSLCertVerificationError:
            return False
        writer.close()
        return True

    for secrets, old_will_do in ((Secrets(newer, previous=older), True), (Secrets(newer), False)):
        w.secrets = secrets
        await w.start_controller()
        await w.start_broker()
        assert await trusts(Authority(older, CLIENTS).trusted.pem) is old_will_do
        assert await trusts(Authority(newer, CLIENTS).trusted.pem) is not old_will_do
        assert await trusts(write_authority(tmp_path, secrets).read_text()), "what a client is given does for both"
        await w.server.stop()
        w.stop_controller()
