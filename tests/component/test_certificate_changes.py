"""Certificates that are replaced while a broker runs: SECURITY.md, XA-46 to XA-49, XG-11."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from actors.broker.entrance.certificates import ListenerTls
from actors.settings import BrokerConfig, SecurityProtocol
from actors.wire import messages
from actors.wire.messages import ApiMessage
from tests.support.certificates import DAY_MS, NOW_MS, authority_of, chain_of, key_of
from tests.support.log_helpers import values
from tests.support.one_broker import VERSIONS, Client, World, create
from tests.support.own_log import logged
from tests.support.runtime_helpers import until
from tests.support.tls_world import CA, UNIT, connect, install, secure, served

MINUTE_MS = 60_000
NAMES = ("localhost", "127.0.0.1")
KEYS = "listener.name.secure.ssl.keystore.location"


def leaf(*names: str, common_name: str | None = None, days: float = 90) -> trustme.LeafCert:
    end = datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(days=days)
    begin = end - timedelta(days=365)
    return CA.issue_cert(
        *names or NAMES, common_name=common_name, organization_unit_name=UNIT, not_before=begin, not_after=end
    )


class Listener:
    """One listener's certificates, with a clock of its own."""

    def __init__(self, path: Path, first: trustme.LeafCert, protocol: str = "SSL", **settings: str) -> None:
        self.path = path
        self.now_ms = NOW_MS
        given = {"ssl_keystore_location": install(path, first), **settings}
        self.config = BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in given.items()})
        self.tls = ListenerTls(
            "SECURE", SecurityProtocol(protocol), lambda: self.config.for_listener("SECURE"), lambda: self.now_ms
        )
        self.first = self.tls.context

    async def replaced(self, by: trustme.LeafCert) -> bool:
        before = self.tls.context
        install(self.path, by)
        await self.tls.check()
        return self.tls.context is not before


# --- what may take the place of what ---


@pytest.mark.conformance("XA-48")
async def test_a_new_certificate_of_the_same_subject_is_taken_over(tmp_path: Path) -> None:
    listener = Listener(tmp_path, leaf())
    await listener.tls.check()
    assert listener.tls.context is listener.first, "nothing has changed"
    assert await listener.replaced(leaf())
    assert listener.tls.failure is None


@pytest.mark.conformance("XA-47", "XA-48")
@pytest.mark.parametrize(
    ("second", "setting", "words"),
    [
        (leaf(common_name="two"), "ssl_allow_dn_changes", f"the subject would change from OU={UNIT}.* to CN=two,"),
        (leaf("localhost"), "ssl_allow_san_changes", r"would lose .*127\.0\.0\.1"),
    ],
)
async def test_who_a_broker_is_does_not_change_unless_that_is_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, second: trustme.LeafCert, setting: str, words: str
) -> None:
    listener = Listener(tmp_path, leaf())
    assert not await listener.replaced(second)
    await listener.tls.check()
    assert re.search(words, listener.tls.failure or "")
    assert len(caplog.records) == 1, "it is logged once"
    assert "listener SECURE keeps its certificates" in caplog.text
    assert await Listener(tmp_path, leaf(), **{setting: "true"}).replaced(second)


@pytest.mark.conformance("XA-46", "XA-48")
async def test_a_bad_file_changes_nothing_and_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(tmp_path, leaf())
    file = tmp_path / "keys.pem"
    for spoil in (
        lambda: install(tmp_path, leaf(days=-1)),
        lambda: file.write_text("nothing"),
        file.unlink,
    ):
        spoil()
        caplog.clear()
        for _ in range(3):
            await listener.tls.check()
        assert listener.tls.context is listener.first
        assert listener.tls.failure is not None
        assert len(caplog.records) == 1
    assert await listener.replaced(leaf())
    assert listener.tls.failure is None


@pytest.mark.conformance("XA-48")
async def test_a_pair_that_does_not_match_has_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(tmp_path, leaf())
    old, new = leaf(), leaf()
    (tmp_path / "keys.pem").write_text(key_of(old) + chain_of(new))
    for _ in range(2):
        await listener.tls.check()
        listener.now_ms += MINUTE_MS // 2
        assert listener.tls.failure is not None
        assert not caplog.records
    assert await listener.replaced(new)
    assert not caplog.records
    (tmp_path / "keys.pem").write_text(key_of(old) + chain_of(new))
    await listener.tls.check()
    listener.now_ms += MINUTE_MS
    for _ in range(3):
        await listener.tls.check()
    assert len(caplog.records) == 1
    assert "the key does not belong to the first certificate" in caplog.text


@pytest.mark.conformance("XA-48")
async def test_a_link_that_leads_to_another_folder_is_noticed(tmp_path: Path) -> None:
    """Kubernetes replaces a folder of secrets by renaming a symbolic link."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        install(tmp_path / version, leaf())
        os.utime(tmp_path / version / "keys.pem", ns=(1, 1))
    data = tmp_path / "data"
    data.symlink_to("1")
    listener = Listener(tmp_path, leaf(), listener_name_secure_ssl_keystore_location=str(data / "keys.pem"))
    (tmp_path / "new").symlink_to("2")
    (tmp_path / "new").rename(data)
    await listener.tls.check()
    assert listener.tls.context is not listener.first


@pytest.mark.conformance("XA-47")
async def test_a_store_neither_appears_nor_vanishes(tmp_path: Path) -> None:
    listener = Listener(tmp_path, leaf())
    (tmp_path / "trust.pem").write_text(authority_of(CA))
    before = listener.config
    listener.config = before.with_dynamic({"ssl.truststore.location": str(tmp_path / "trust.pem")})
    await listener.tls.check()
    assert listener.tls.context is listener.first
    assert "cannot be added or taken away" in (listener.tls.failure or "")
    listener.config = before
    await listener.tls.check()
    assert listener.tls.failure is None


@pytest.mark.conformance("XA-46")
def test_a_certificate_that_expires_soon_is_logged_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(tmp_path, leaf(days=31.5))
    for day in range(1, 33):
        for _ in range(3):
            listener.now_ms += DAY_MS // 3
            listener.tls.warn_of_expiry()
        assert len(caplog.records) == max(0, day - 1), day
    assert "expires in" in caplog.records[0].getMessage()
    assert "has expired" in logged(caplog)[-1]
    assert -2 < listener.tls.days_left < 0


@pytest.mark.conformance("XA-38")
async def test_with_sasl_only_the_prefixed_setting_asks_for_certificates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "trust.pem").write_text(authority_of(CA))
    given = {"ssl_truststore_location": str(tmp_path / "trust.pem"), "ssl_client_auth": "required"}
    assert Listener(tmp_path, leaf(), **given).first.verify_mode is ssl.CERT_REQUIRED
    assert not caplog.records
    assert Listener(tmp_path, leaf(), "SASL_SSL", **given).first.verify_mode is ssl.CERT_NONE
    assert "only listener.name.secure.ssl.client.auth=required would do" in caplog.text
    given["listener_name_secure_ssl_client_auth"] = "requested"
    assert Listener(tmp_path, leaf(), "SASL_SSL", **given).first.verify_mode is ssl.CERT_OPTIONAL


def test_a_key_that_others_may_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Listener(tmp_path, leaf())
    assert not caplog.records
    (tmp_path / "more").mkdir()
    Path(install(tmp_path / "more", leaf())).chmod(0o644)
    location = str(tmp_path / "more" / "keys.pem")
    Listener(tmp_path, leaf(), listener_name_secure_ssl_keystore_location=location)
    assert "others may read ssl.keystore.location=" in caplog.text


# --- a broker under load ---


def serial(client: Client) -> int:
    return int(client.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16)


async def shown(w: World) -> int:
    client = await connect(w)
    try:
        return serial(client)
    finally:
        client.writer.close()


async def until_shown(w: World, wanted: Callable[[int], bool]) -> int:
    deadline = asyncio.get_running_loop().time() + 60
    while not wanted(found := await shown(w)):
        assert asyncio.get_running_loop().time() < deadline
    return found


@pytest.mark.conformance("XA-48", "XA-49")
async def test_connections_outlive_the_certificates_that_they_began_with(tmp_path: Path) -> None:
    async with secure(tmp_path, coterie_certificates_check_ms="20") as w:
        clients = [await connect(w) for _ in range(4)]
        begun, tls = serial(clients[0]), w.server.tls.of("SECURE")
        stop, counts = asyncio.Event(), [0] * len(clients)

        async def load(at: int) -> None:
            while not stop.is_set():
                assert await served(clients[at])
                counts[at] += 1

        loads = [asyncio.create_task(load(at)) for at in range(len(clients))]
        last = begun
        for bad in (leaf(common_name="other"), leaf(days=-1), leaf("elsewhere")):
            install(tmp_path, bad)
            await until(lambda: tls.failure)
            assert await shown(w) == last
            (told,) = w.server.socket_server.load().tls
            assert (told.listener, told.problem) == ("SECURE", tls.failure)
            assert told.days_left > 80
            install(tmp_path, leaf())
            last = await until_shown(w, lambda found, last=last: found != last)
            assert tls.failure is None
        before = list(counts)
        await until(lambda: all(now > then for now, then in zip(counts, before, strict=True)))
        stop.set()
        await asyncio.gather(*loads)
        assert {serial(client) for client in clients} == {begun}


def serial_of(certificate: trustme.LeafCert) -> int:
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes()).serial_number


# --- when told ---


def altered(value: str, key: str = KEYS, validate_only: bool = False) -> tuple[ApiMessage, int]:
    request = messages.IncrementalAlterConfigsRequest
    config = request.AlterableConfig(name=key, config_operation=0, value=value)
    resource = request.AlterConfigsResource(resource_type=4, resource_name="0", configs=[config])
    return request(resources=[resource], validate_only=validate_only), 0


async def told(w: World, **given: Any) -> tuple[int, str | None]:
    client = await w.client()
    client.send(altered(**given))
    outcome = (await client.answer()).responses[0]
    return outcome.error_code, outcome.error_message


async def test_a_record_with_the_pem_of_a_stranger_became_the_trust_store(tmp_path: Path) -> None:
    """From then on its author could be anybody, by certificates of their own."""
    stranger = trustme.CA().cert_pem.bytes()
    trust = "listener.name.secure.ssl.truststore.location"
    async with secure(tmp_path) as w:
        client = await w.client()
        await client.ask(*create("t"))
        data = messages.ProduceRequest.PartitionProduceData(index=0, records=values(stranger))
        topics = [messages.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
        await client.ask(messages.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9)
        (segment,) = (w.server.context.data_dir.path / "t-0").glob("*.log")
        assert stranger in segment.read_bytes()
        (tmp_path / "link").symlink_to(segment)
        (tmp_path / "copy").write_bytes(segment.read_bytes())
        os.mkfifo(tmp_path / "pipe")
        (segment.parent / "whole.pem").write_bytes(stranger)
        before = w.server.tls.of("SECURE").context
        for path, why in (
            (segment, "is in the data directory"),
            (tmp_path / "link", "is in the data directory"),
            (segment.parent / "whole.pem", "is in the data directory"),
            (segment.parent.parent / "secret", "is in the data directory"),
            (tmp_path / "copy", "is no PEM"),
            (tmp_path / "pipe", "is no regular file"),
            (Path("/dev/zero"), "is no regular file"),
        ):
            for key in (trust, KEYS):
                code, text = await told(w, value=str(path), key=key)
                assert code == 42, path
                assert why in (text or ""), path
        assert w.server.tls.of("SECURE").context is before


@pytest.mark.conformance("XA-47")
async def test_a_broker_that_is_told_of_the_same_file_reads_it_again(tmp_path: Path) -> None:
    location = str(tmp_path / "keys.pem")
    async with secure(tmp_path) as w:
        first = await shown(w)
        install(tmp_path, leaf())
        inside = await w.client()
        inside.send(altered("900", "max.connections"))
        assert (await inside.answer()).responses[0].error_code == 0
        await until(lambda: w.server.context.config.integer("max.connections") == 900)
        w.server.tls.tick()
        assert await shown(w) == first, "it does not look by itself"
        assert (await told(w, value=location, validate_only=True))[0] == 0
        assert await shown(w) == first
        assert (await told(w, value=location))[0] == 0
        await until_shown(w, lambda found: found != first)


@pytest.mark.conformance("XA-47")
async def test_a_broker_that_is_told_of_another_file_uses_that(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    async with secure(tmp_path) as w:
        other = leaf()
        assert (await told(w, value=install(tmp_path / "more", other)))[0] == 0
        await until_shown(w, lambda found: found == serial_of(other))


@pytest.mark.conformance("XA-47")
async def test_a_file_that_will_not_do_is_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    async with secure(tmp_path) as w:
        first = await shown(w)
        for value, words in (
            (install(tmp_path / "more", leaf(common_name="other")), "ssl.allow.dn.changes"),
            (str(tmp_path / "absent"), "cannot be read"),
            ("", "TLS needs a certificate"),
        ):
            code, text = await told(w, value=value)
            assert code == 42
            assert "listener SECURE: " in (text or "")
            assert words in (text or "")
        code, text = await told(w, key="listener.name.secure.ssl.truststore.location", value="")
        assert (code, "cannot be added or taken away" in (text or "")) == (42, True)
        assert await shown(w) == first
        client = await w.client()
        client.send(VERSIONS)
        assert (await client.answer()).error_code == 0
