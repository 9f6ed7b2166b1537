"""Settings of a cluster that change while it runs, as the controller's process takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.controller import settings_in_force
from actors.controller.pool_seals import POOLS_KEY
from actors.controller.process import ControllerProcess
from actors.controller.settings_in_force import Changed
from actors.runtime.private import write_private
from actors.runtime.ray_connection import ClusterError
from actors.security.tls import TlsError
from actors.settings import LINKS, OWN_STORE, OWN_TRUST, LinkSecurity
from tests.support.controller_process import Controllers


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    yield made
    for each in made.running:
        each.close()


def test_what_was_changed_while_a_cluster_ran_holds_until_it_is_started_as_a_whole(controllers: Controllers) -> None:
    process = controllers.begin()
    process.loop.ask(process.controller.expect, process.placing.place(2))
    process.launcher.registered(1, {"PLAINTEXT": 40001})
    changed = Changed({"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:7000"}, {LINKS: "both"})
    process.reconfigure(changed)
    doors = [(door.listener, door.port) for door in process.launcher.told(1).doors]
    assert doors == [("PLAINTEXT", 40001), ("SSL", 7001)], "it keeps the port that nothing chooses"
    assert process.launcher.told(1).config == changed.effective
    assert process.controller.config.link_security is LinkSecurity.BOTH
    spec, brokers = process.in_force()
    assert (spec.config, spec.transition, spec.port, brokers) == (changed.config, changed.transition, 0, 2)
    assert not spec.everywhere
    process.restarted_all()
    assert process.in_force()[0].everywhere
    process.launcher.registered(1, {"SSL": 9})
    ports = [door.port for door in process.launcher.told(1).doors]
    assert ports == [40001, 7001], "a process with older settings says nothing"
    controllers.end()
    controllers.restarted = True  # with its first arguments
    again = controllers.begin()
    assert again.launcher.told(1).config == changed.effective
    controllers.end()
    controllers.restarted = False
    anew = controllers.begin()
    anew.placing.place(2)
    assert anew.launcher.told(1).config == {}


@pytest.mark.conformance("N-C-07")
def test_changed_settings_are_found_in_the_log_until_the_cluster_is_started_as_a_whole(
    controllers: Controllers,
) -> None:
    folder = controllers.folder
    write_private(folder / POOLS_KEY, bytes(range(32)).hex())

    def partitions(process: ControllerProcess) -> tuple[int, bytes]:
        found = process.controller.config.integer("num.partitions"), process.controller.decided.pools.key
        controllers.end()
        return found

    controllers.begin().reconfigure(Changed({"num.partitions": "3"}))
    controllers.end()
    (folder / POOLS_KEY).unlink()
    controllers.restarted = True
    for stale in (None, Changed({"num.partitions": "7"})):
        settings_in_force.drop(folder)
        if stale is not None:
            settings_in_force.keep(folder, stale)
        again = controllers.begin()
        assert again.in_force()[0].config == {"num.partitions": "3"}
        assert partitions(again) == (3, bytes(range(32))), "what is in the log counts, and not a file of another time"
    controllers.restarted = False
    assert partitions(controllers.begin()) == (1, bytes(range(32)))
    controllers.restarted = True
    assert partitions(controllers.begin()) == (1, bytes(range(32)))


def test_the_controller_waits_for_a_cut_off_broker_as_long_as_that_was_told_before_a_roll(
    controllers: Controllers,
) -> None:
    name = "coterie.broker.isolated.ms"
    process = controllers.begin()

    def waits_ms(process: ControllerProcess) -> int:
        return process.controller.config.integer(name)

    process.reconfigure(Changed({name: "5000"}, former={name: "60000"}))
    assert waits_ms(process) == 60_000
    controllers.end()
    controllers.restarted = True
    again = controllers.begin()
    assert waits_ms(again) == 60_000, "its next process, too"
    again.restarted_all()
    assert waits_ms(again) == 5_000


@pytest.mark.conformance("XE-03")
def test_links_do_not_change_to_certificates_that_the_controller_cannot_read(controllers: Controllers) -> None:
    process = controllers.begin()
    folder = controllers.folder
    files = {OWN_STORE: str(folder / "keys.pem"), OWN_TRUST: str(folder / "trusted.pem")}
    process.reconfigure(Changed(files))  # nobody connects in TLS
    with pytest.raises(TlsError, match=r"keys\.pem and .* cannot be used: No such file"):
        process.reconfigure(Changed({**files, LINKS: "tls"}, {LINKS: "both"}))
    assert process.controller.config.link_security is LinkSecurity.PROOF
    assert settings_in_force.kept(folder) == Changed(files)


def test_a_change_after_which_nobody_may_do_anything_is_refused(controllers: Controllers) -> None:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    process = controllers.begin(config=config)
    with pytest.raises(ClusterError, match=r"set super\.users"):
        process.reconfigure(Changed({"authorizer.class.name": config["authorizer.class.name"]}))
    assert process.in_force()[0].config == config
