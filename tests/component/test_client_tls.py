"""The clients in TLS and with logins, over real sockets, against a broker that is honest or is not."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actors.client import Admin, Consumer, Producer
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import (
    AuthenticationError,
    ConfigurationError,
    KafkaError,
    NoBrokersAvailable,
    RetriableError,
    SaslAuthenticationError,
    SecurityProtocolError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from actors.client.records import OffsetRange
from actors.wire import messages as m
from tests.support.answering import answering
from tests.support.authority import Authority
from tests.support.client_broker import ScriptedBroker
from tests.support.secure_broker import secure_broker

USERS = {"alice": "secret"}
QUICK: dict[str, Any] = {
    "default_api_timeout_ms": 3_000,
    "request_timeout_ms": 3_000,
    "reconnect_backoff_ms": 1,
    "retry_backoff_ms": 1,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def tls(broker: ScriptedBroker, authority: Authority, **more: Any) -> dict[str, Any]:
    given = {"security_protocol": "SSL", "ssl_cafile": authority.cafile}
    return {"bootstrap_servers": broker.bootstrap_servers, **given, **QUICK, **more}


def both(broker: ScriptedBroker, authority: Authority, mechanism: str = "SCRAM-SHA-256", **more: Any) -> dict[str, Any]:
    names = {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": "secret"}
    return tls(broker, authority, security_protocol="SASL_SSL", **names) | more


def assert_described(settings: dict[str, Any]) -> None:
    with Admin(**settings) as admin:
        assert admin.describe_cluster().cluster_id == "scripted"


def replace(path: Path, text: str) -> None:
    """Replace a file at once, so that nobody reads half of it."""
    fresh = path.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_text(text)
    fresh.replace(path)


def failure(settings: dict[str, Any], kind: type[KafkaError]) -> str:
    with Admin(**settings) as admin, pytest.raises(kind) as raised:
        admin.describe_cluster()
    return str(raised.value)


@pytest.mark.conformance("XF-01", "XF-03")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("framed", [True, False])
def test_all_clients_log_in(authority: Authority, mechanism: str, framed: bool) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS, framed=framed) as broker:
        broker.topic("t")
        settings = both(broker, authority, mechanism)
        assert_described(settings)
        values = [b"%d" % n * 50_000 for n in range(20)]
        with Producer(**settings, linger_ms=5, max_request_size=10 << 20, batch_size=300_000) as producer:
            for value in values:
                producer.send("t", value=value)
        with Consumer("t", group_id="g", auto_offset_reset="earliest", **settings) as consumer:
            read: list[bytes] = []
            while len(read) < len(values):
                read += [record.value for some in consumer.poll(timeout_ms=500).values() for record in some]
        assert read == values
        with RangeReader(**settings) as reader:
            batches = list(reader.read([OffsetRange("t", 0, 0, 20)]))
        assert [value for batch in batches for value in batch.column("value").to_pylist()] == values
        names = ["ApiVersionsRequest", "SaslHandshakeRequest", "SaslAuthenticateRequest", "MetadataRequest"]
        kinds = [getattr(m, name) for name in names if framed or name != "SaslAuthenticateRequest"]
        assert broker.order(*kinds)[:2] == names[:2]


@pytest.mark.conformance("XF-01")
def test_a_client_shows_its_certificate(authority: Authority) -> None:
    context = authority.server("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.cafile)
    mine = authority.sign("alice")
    text = {"ssl_certdata": Path(mine.certificate).read_text(), "ssl_keydata": Path(mine.key).read_text()}
    with secure_broker(context) as broker:
        assert_described(tls(broker, authority, ssl_certfile=mine.certificate, ssl_keyfile=mine.key))
        assert_described(tls(broker, authority, ssl_certfile=mine.both))
        assert_described(tls(broker, authority, **text))
        assert "ssl_certfile and ssl_keyfile say what the client shows" in failure(
            tls(broker, authority), SslAuthenticationError
        )


def test_a_certificate_that_the_broker_does_not_know_is_an_error_at_once(authority: Authority, tmp_path: Path) -> None:
    context = authority.server("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.cafile)
    other = Authority(tmp_path, "other").sign("alice")
    with secure_broker(context) as broker:
        text = failure(tls(broker, authority, ssl_certfile=other.both), SslAuthenticationError)
    assert "the broker wants another certificate of the client" in text


@pytest.mark.conformance("XF-01")
def test_a_context_of_the_program_is_used_as_it_is(authority: Authority) -> None:
    with secure_broker(authority.server("127.0.0.1")) as broker:
        context = ssl.create_default_context(cafile=authority.cafile)
        assert_described({k: v for k, v in tls(broker, authority, ssl_context=context).items() if k != "ssl_cafile"})


@pytest.mark.conformance("XF-04", "XF-10")
def test_a_broker_of_another_authority_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    with secure_broker(Authority(tmp_path, "other").server("127.0.0.1"), USERS) as broker:
        text = failure(both(broker, authority), SslAuthenticationError)
        assert "is not believed" in text
        assert "ssl_cafile" in text
        assert broker.requests(m.ApiVersionsRequest) == []


@pytest.mark.conformance("XF-04", "XF-10")
def test_a_broker_of_another_name_is_not_believed_and_the_names_are_told(authority: Authority) -> None:
    with secure_broker(authority.server("kafka.example", "10.1.2.3"), USERS) as broker:
        text = failure(both(broker, authority), SslAuthenticationError)
        assert "is for kafka.example, 10.1.2.3, not for 127.0.0.1" in text
        assert broker.requests(m.ApiVersionsRequest) == []
        assert_described(both(broker, authority, ssl_check_hostname=False))


@pytest.mark.conformance("XF-04")
def test_the_common_name_of_a_certificate_counts_for_nothing(authority: Authority) -> None:
    pem = authority.sign("elsewhere.example", common_name="127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem.both)
    with secure_broker(context) as broker:
        assert "is for elsewhere.example" in failure(tls(broker, authority), SslAuthenticationError)


@pytest.mark.conformance("XF-10")
def test_of_an_expired_certificate_the_date_is_told(authority: Authority) -> None:
    ended = datetime.now(UTC) - timedelta(days=2)
    with secure_broker(authority.server("127.0.0.1", until=ended)) as broker:
        text = failure(tls(broker, authority), SslAuthenticationError)
    assert f"has expired on {ended:%Y-%m-%d}" in text


@pytest.mark.conformance("XF-04", "XG-08")
def test_a_server_of_tls_1_1_is_refused(authority: Authority) -> None:
    context = authority.server("127.0.0.1")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with secure_broker(context) as broker:
        text = failure(tls(broker, authority), SslAuthenticationError)
    assert "no TLS version or cipher in common" in text


def _until(kind: type[KafkaError], call: Callable[[], Any], but: tuple[type[KafkaError], ...] = ()) -> str:
    """Call until it raises this, and return the text; what it raises `but` that is passed over."""
    while True:
        try:
            with contextlib.suppress(*but):
                call()
        except kind as error:
            return str(error)


def _at(port: int, authority: Authority) -> dict[str, Any]:
    return {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": "SSL",
        "ssl_cafile": authority.cafile,
        **QUICK,
        "default_api_timeout_ms": 300,
    }


@pytest.mark.conformance("XF-04", "XF-10", "XG-08")
def test_a_plain_answer_to_tls_is_an_error_and_nothing_more_is_sent(authority: Authority) -> None:
    with answering(b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x23") as port:
        text = failure(_at(port, authority), SslAuthenticationError)
    assert "is not TLS: security_protocol may have to be PLAINTEXT" in text


@pytest.mark.conformance("XF-10")
def test_who_hangs_up_on_tls_may_speak_none(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    with answering(b"") as port, caplog.at_level(logging.DEBUG, "actors.client.net"):
        failure(_at(port, authority), KafkaError)
    assert "may not speak TLS at this port (security_protocol=PLAINTEXT" in caplog.text


@pytest.mark.conformance("XF-10")
def test_tls_on_a_plain_connection_is_named(authority: Authority) -> None:
    with answering(b"\x15\x03\x03\x00\x02\x02\x0a") as port:
        settings = {"bootstrap_servers": f"127.0.0.1:{port}", **QUICK, "default_api_timeout_ms": 300}
        said = failure(settings, SecurityProtocolError)
        assert "the broker expects TLS here: set security_protocol to SASL_SSL" in said
        assert "sasl_plain_username" in said, "who has no protocol set has no login set either"


@pytest.mark.conformance("XF-10")
def test_who_hangs_up_at_the_first_request_may_expect_a_login(authority: Authority) -> None:
    with secure_broker(None, USERS) as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers, **QUICK, "default_api_timeout_ms": 300}
        text = failure(settings, KafkaError)
    assert "it may expect a login (security_protocol=SASL_SSL or SASL_PLAINTEXT)" in text


@pytest.mark.conformance("XF-04", "XG-08")
def test_a_mechanism_that_is_taken_away_is_not_replaced_by_another(authority: Authority) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS, mechanisms=("PLAIN",)) as broker:
        text = failure(both(broker, authority), UnsupportedSaslMechanismError)
        assert "sasl_mechanism=SCRAM-SHA-256 here; it offers PLAIN" in text
        assert broker.requests(m.SaslAuthenticateRequest) == []


@pytest.mark.conformance("XF-05", "XG-08")
@pytest.mark.parametrize(
    "altered",
    [
        lambda token: token.replace(b"i=4096", b"i=1"),
        lambda token: token.replace(b"i=4096", b"i=1000000000"),
        lambda token: b"" if token.startswith(b"v=") else token,
    ],
)
@pytest.mark.parametrize("framed", [True, False])
def test_an_impostor_learns_nothing_but_a_proof(
    authority: Authority, altered: Callable[[bytes], bytes], framed: bool
) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS, framed=framed) as broker:
        broker.altered = altered
        assert "the broker's part of SCRAM-SHA-256 is wrong" in failure(
            both(broker, authority), SaslAuthenticationError
        )
        assert broker.requests(m.MetadataRequest) == []


@pytest.mark.conformance("XF-06")
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_fails_at_once_and_is_not_tried_without_a_pause(
    authority: Authority, framed: bool, mechanism: str
) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS, framed=framed) as broker:
        settings = both(broker, authority, mechanism, sasl_plain_password="wrong", reconnect_backoff_max_ms=60_000)
        with Admin(**settings) as admin:
            for _ in range(5):
                with pytest.raises(SaslAuthenticationError):
                    admin.list_topics()
        assert broker.connections == 1


def test_of_a_broker_that_refused_us_and_is_gone_the_latter_is_told(authority: Authority) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS) as broker:
        settings = both(broker, authority, sasl_plain_password="wrong", reconnect_backoff_max_ms=20)
        with Admin(**settings | {"default_api_timeout_ms": 200}) as admin:
            with pytest.raises(SaslAuthenticationError):
                admin.list_topics()
            broker.close()
            assert "cannot connect" in _until(RetriableError, admin.list_topics, but=(SaslAuthenticationError,))


@pytest.mark.conformance("XF-06")
def test_a_producer_and_a_consumer_with_a_wrong_password_say_so_at_once(authority: Authority) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS) as broker:
        broker.topic("t")
        settings = both(broker, authority, sasl_plain_password="wrong")
        with Producer(**settings) as producer, pytest.raises(SaslAuthenticationError):
            producer.send("t", value=b"1")
        with Consumer("t", group_id="g", **settings) as consumer, pytest.raises(SaslAuthenticationError):
            consumer.poll(timeout_ms=3000)
        with Consumer(**settings) as consumer, pytest.raises(SaslAuthenticationError):
            consumer.partitions_for_topic("t")
        with RangeReader(**settings) as reader, pytest.raises(SaslAuthenticationError):
            list(reader.read([OffsetRange("t", 0, 0, 20)]))


@pytest.mark.conformance("XF-06")
def test_a_consumer_goes_on_when_its_credentials_come_back(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "password"
    replace(path, "secret\n")
    with secure_broker(authority.server("127.0.0.1"), USERS) as broker:
        broker.topic("t")
        settings = both(broker, authority, sasl_plain_password=None, sasl_password_file=str(path))
        settings |= {"auto_offset_reset": "earliest", "reconnect_backoff_max_ms": 20}
        with Consumer("t", group_id="g", **settings) as consumer:
            while not consumer.assignment():
                consumer.poll(timeout_ms=100)
            replace(path, "wrong")
            broker.drop_connections()
            assert "logging in as 'alice'" in _until(AuthenticationError, lambda: consumer.poll(timeout_ms=100))
            replace(path, "secret")
            broker.append("t", 0, b"1")
            read: list[Any] = []
            while not read:
                try:
                    read = list(consumer.poll(timeout_ms=100).values())
                except AuthenticationError:
                    continue
        assert len(broker.requests(m.LeaveGroupRequest)) == 1  # at the end
        assert len({request.member_id for request in broker.requests(m.HeartbeatRequest)}) <= 1


def test_files_that_cannot_be_used_are_known_when_the_client_is_made(authority: Authority, tmp_path: Path) -> None:
    settings = {"security_protocol": "SSL", "ssl_cafile": str(tmp_path / "nothing")}
    for make in (Admin, Producer, Consumer):
        with pytest.raises(ConfigurationError, match=r"ssl_cafile=.*nothing cannot be read: No such file or directory"):
            make(**settings)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"}
    with pytest.raises(ConfigurationError, match=r"sasl_password_file=.*nothing: No such file or directory"):
        Admin(**login, sasl_password_file=str(tmp_path / "nothing"))
    (tmp_path / "rubbish").write_text("rubbish")
    with pytest.raises(ConfigurationError, match=r"ssl_cafile=.*rubbish cannot be used"):
        Admin(security_protocol="SSL", ssl_cafile=str(tmp_path / "rubbish"))
    one, other = authority.sign("one"), authority.sign("other")
    with pytest.raises(
        ConfigurationError, match=r"ssl_certfile=.* cannot be used: it must be a certificate and its own key"
    ):
        Admin(security_protocol="SSL", ssl_certfile=one.certificate, ssl_keyfile=other.key)


def test_an_encrypted_key_never_asks_on_the_terminal(authority: Authority, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s

    pem = authority.sign("carol")
    key = s.load_pem_private_key(Path(pem.key).read_bytes(), None)
    path = tmp_path / "encrypted.key"
    path.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"open")))
    given = {"security_protocol": "SSL", "ssl_certfile": pem.certificate, "ssl_keyfile": str(path)}
    Admin(**given, ssl_password="open").close()
    with pytest.raises(ConfigurationError, match=r"encrypted.key cannot be used: .* ssl_password must open the key"):
        Admin(**given)
    with pytest.raises(ConfigurationError, match=r"ssl_password must open the key"):
        Admin(**given, ssl_password="shut")


def test_a_replaced_authority_holds_for_new_connections(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    path = tmp_path / "trusted.pem"
    path.write_bytes(Path(authority.cafile).read_bytes())
    with secure_broker(authority.server("127.0.0.1")) as broker:
        settings = tls(broker, authority, reconnect_backoff_max_ms=1) | {"ssl_cafile": str(path)}
        with Admin(**settings) as admin:
            admin.describe_cluster()
            broker.tls = other.server("127.0.0.1")
            broker.drop_connections()
            assert "is not believed" in _until(SslAuthenticationError, admin.describe_cluster)
            replace(path, Path(other.cafile).read_text())
            while True:
                try:
                    assert admin.describe_cluster().cluster_id == "scripted"
                    break
                except (AuthenticationError, NoBrokersAvailable):
                    continue


@pytest.mark.conformance("XF-07")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_login_is_renewed_on_the_connection_that_it_is_for(authority: Authority, mechanism: str) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS, lifetime_ms=50) as broker:
        with Admin(**both(broker, authority, mechanism)) as admin:
            while broker.logins < 8:
                admin.list_topics()
            count = broker.connections
        with broker.changed:
            assert broker.changed.wait_for(lambda: len(broker.logins_by_connection) == count, 30)
    assert max(broker.logins_by_connection) >= 8 / count
    assert count <= 2


@pytest.mark.conformance("XF-07")
def test_a_login_that_cannot_be_renewed_is_as_any_that_fails(authority: Authority) -> None:
    with secure_broker(authority.server("127.0.0.1"), USERS, lifetime_ms=50) as broker:
        with Admin(**both(broker, authority)) as admin:
            admin.list_topics()
            broker.users = {"alice": "another password"}
            assert "logging in as 'alice'" in _until(SaslAuthenticationError, admin.list_topics)


def test_records_without_an_answer_are_not_lost_in_tls(authority: Authority) -> None:
    with secure_broker(authority.server("127.0.0.1")) as broker:
        broker.topic("t")
        with Producer(**tls(broker, authority), acks=0, batch_size=1 << 20) as producer:
            for number in range(200):
                producer.send("t", value=b"%d" % number * 10_000)
        with Consumer("t", group_id="g", auto_offset_reset="earliest", **tls(broker, authority)) as consumer:
            count = 0
            while count < 200:
                count += sum(map(len, consumer.poll(timeout_ms=500).values()))
