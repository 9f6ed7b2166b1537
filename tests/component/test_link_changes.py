"""A cluster changes how its processes connect, or their secret, while it runs: all are believed at every moment."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
import trustme

from actors.controller import new_secret
from actors.controller.new_secret import NewSecretError
from actors.links.connection import dial
from actors.links.control import Join
from actors.links.secret import Secrets, next_of, previous_of, read_secrets
from actors.settings import BrokerConfig, LinkSecurity, LinkStores
from tests.support.link_ends import OWN, End, accepting, link_stores, of_files
from tests.support.runtime_helpers import SECRET, until
from tests.support.three_brokers import World, world

OLDER, NEWER = b"o" * 32, b"n" * 32
PHASES = [Secrets(OLDER), Secrets(OLDER, next=NEWER), Secrets(NEWER, previous=OLDER), Secrets(NEWER)]
BESIDE_ONE_ANOTHER = [pair for a, b in pairwise(PHASES) for pair in ((a, b), (b, a), (b, b))]


CERTIFICATES = [None, "made by themselves", "the operator's"]


@pytest.fixture(params=CERTIFICATES)
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> LinkStores | None:
    """The protection of the links: no TLS, or TLS with one of two kinds of certificates."""
    if request.param == "the operator's":
        return link_stores(tmp_path, trustme.CA(), "127.0.0.1")
    return OWN if request.param else None


async def spoken(accepts: End, security: LinkSecurity, dials: End, tls: LinkStores | None) -> bool:
    """Dial from one end to the other. True if the dialling end is believed and heard."""
    server, port = await accepting(accepts, accepts.secrets, security, tls or OWN)
    try:
        await dial(lambda: dials.protocol, "127.0.0.1", port, dials.secrets, tls=tls)
    except OSError:
        server.close()
        return False
    waiting = [asyncio.ensure_future(event.wait()) for event in (dials.ready, dials.lost)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    if dials.ready.is_set():
        dials.protocol.send(Join(3))
        await until(lambda: accepts.heard == [Join(3)])
    dials.protocol.close()
    server.close()
    return bool(accepts.heard)


@pytest.mark.conformance("XE-06")
async def test_processes_in_neighbouring_phases_of_a_new_secret_believe_each_other(tls: LinkStores | None) -> None:
    for one, other in BESIDE_ONE_ANOTHER:
        ends = End("controller", one), End("broker", other)
        assert await spoken(ends[0], LinkSecurity.BOTH, ends[1], tls), (one.marks, other.marks)
        assert ends[0].protocol.proved_by == other.current


@pytest.mark.conformance("XE-06")
async def test_a_secret_that_is_forgotten_opens_nothing(tls: LinkStores | None) -> None:
    assert not await spoken(End("controller", Secrets(NEWER)), LinkSecurity.BOTH, End("broker", Secrets(OLDER)), tls)


@pytest.mark.parametrize(
    ("security", "in_plain"), [(LinkSecurity.PROOF, True), (LinkSecurity.BOTH, True), (LinkSecurity.TLS, False)]
)
async def test_who_has_changed_to_tls_is_taken_and_who_has_yet_to_while_it_may(
    security: LinkSecurity, in_plain: bool, tls: LinkStores | None
) -> None:
    assert await spoken(End("controller"), security, End("broker"), tls) is (in_plain or tls is not None)


async def test_who_connects_in_tls_hears_nothing_where_the_operators_files_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process that connects without TLS itself reads the files when the first TLS connection comes."""
    controller, broker = End("controller"), End("broker")
    server, port = await accepting(controller, security=LinkSecurity.PROOF, tls=LinkStores("/no.pem", "/nor.pem"))
    with pytest.raises(OSError):
        await dial(lambda: broker.protocol, "127.0.0.1", port, SECRET, tls=OWN)
    assert "somebody connects in TLS: the certificates of links, /no.pem and /nor.pem, cannot be used" in caplog.text
    assert not controller.ready.is_set()
    server.close()


async def roll(w: World, **settings: str) -> None:
    """Restart all brokers; every record that is produced after each is acknowledged."""
    for broker_id in range(3):
        await w.restart_broker(broker_id, **settings)
        assert await w.produce("t", b"after %d" % broker_id) == 0


def protection(w: World) -> set[str]:
    links = [session.protocol for session in w.controller.brokers.values()]
    links += [link.protocol for server in w.servers.values() for link in server.replicas.links.values()]
    transports = [None if each is None else each.transport for each in links]
    if None in transports:
        return {"away"}
    return {"TLS" if each.get_extra_info("ssl_object") else "none" for each in transports}


@pytest.mark.conformance("XE-02", "XE-03")
async def test_links_change_to_tls_while_records_are_written(tmp_path: Path) -> None:
    async with world(tmp_path, **of_files(link_stores(tmp_path, trustme.CA(), "127.0.0.1"))) as w:
        await w.create("t", factor=3, min_insync_replicas="2")
        await until(lambda: protection(w) == {"none"})
        for security in ("both", "tls"):
            settings = w.settings | {"coterie.internal.security": security}
            w.controller.reconfigure(BrokerConfig.from_mapping(settings))
            await roll(w, coterie_internal_security=security)
            await until(lambda: protection(w) == {"TLS"})
        assert [len(w.records(broker_id, "t")) for broker_id in range(3)] == [6, 6, 6]


@pytest.mark.conformance("XE-06")
async def test_a_cluster_changes_its_secret_while_records_are_written(tmp_path: Path, tls: LinkStores | None) -> None:
    given = of_files(tls) if tls is not None else {}
    async with world(tmp_path, coterie_internal_security="tls" if tls else "proof", **given) as w:
        await w.create("t", factor=3, min_insync_replicas="2")
        before = read_secrets(w.secret_file).current
        await new_secret.begin(w.controller, w.secret_file)
        assert read_secrets(w.secret_file).current == before, "nobody uses it before all know it"
        await w.restart_broker(0)  # as it may happen at any time
        await new_secret.use(w.controller, w.secret_file)
        with pytest.raises(NewSecretError, match=r"restart broker\(s\) 0, 1, 2 first"):
            await new_secret.forget(w.controller, w.secret_file, w.node.close_unauthenticated)
        with pytest.raises(NewSecretError, match=r"secret\.previous is still valid"):
            await new_secret.begin(w.controller, w.secret_file)
        await roll(w)
        await new_secret.forget(w.controller, w.secret_file, w.node.close_unauthenticated)
        after = read_secrets(w.secret_file)
        assert (after.known, w.controller.secrets) == ((after.current,), after)
        assert after.current != before
        assert all(server.contact.secrets == after for server in w.servers.values())
        await roll(w)
        assert not next_of(w.secret_file).exists()
        assert not previous_of(w.secret_file).exists()
        assert w.secret_file.stat().st_mode & 0o077 == 0
        assert [len(w.records(broker_id, "t")) for broker_id in range(3)] == [6, 6, 6]


@pytest.mark.conformance("XE-06")
async def test_no_secret_is_used_that_a_broker_cannot_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path) as w:
        monkeypatch.setattr(w.servers[1].contact, "find_controller", lambda: ("", 0, SECRET))
        with pytest.raises(
            NewSecretError, match=r"broker 1 has not got .* needs .*/secret and .*/secret\.next as this"
        ):
            await new_secret.begin(w.controller, w.secret_file)
        assert w.controller.secrets.current == SECRET.current
        monkeypatch.undo()
        begun = next_of(w.secret_file).read_text()
        await new_secret.begin(w.controller, w.secret_file)
        assert next_of(w.secret_file).read_text() == begun, "the one that was begun"


async def test_where_the_files_are_the_users_he_makes_the_secret(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        with pytest.raises(NewSecretError, match=r"put the new secret into .*/secret\.next, on each node"):
            await new_secret.begin(w.controller, w.secret_file, make=False)


@pytest.mark.conformance("XE-06")
def test_a_change_that_ends_between_two_of_its_files_goes_on(tmp_path: Path) -> None:
    """As it stands when the machine loses power after the first half of `use`."""
    path = tmp_path / "secret"
    path.write_text(OLDER.hex())
    previous_of(path).write_text(OLDER.hex())
    next_of(path).write_text(NEWER.hex())
    assert read_secrets(path) == Secrets(OLDER, next=NEWER)
