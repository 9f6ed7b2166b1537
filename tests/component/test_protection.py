"""Data that was served with TLS, logins and ACLs, and a start that leaves one of them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controller import protection
from actors.controller.listeners import plan_listeners
from actors.controller.preparation import prepare_folder
from actors.controller.protection import Protection
from actors.controller.securing import PROPERTIES, secured
from actors.runtime.ray_runtime import ClusterError
from actors.settings import BrokerConfig

ALL = Protection(tls=True, logins=True, acls=True)


def given(**config: str) -> Protection:
    parsed = BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in config.items()})
    return Protection.of(plan_listeners(parsed, "127.0.0.1", None), parsed)


def test_what_a_cluster_has_is_what_each_listener_has() -> None:
    assert given() == Protection()
    parsed = BrokerConfig.from_mapping(secured({}, "127.0.0.1", 0))
    assert Protection.of(plan_listeners(parsed, "127.0.0.1", 0), parsed) == ALL
    scram = {"sasl_enabled_mechanisms": "SCRAM-SHA-256"}
    assert given(listeners="SASL_PLAINTEXT://:0", **scram) == Protection(logins=True)
    assert given(listeners="SASL_SSL://:0,PLAINTEXT://:0", **scram) == Protection()
    assert given(listeners="SSL://:0", ssl_client_auth="required").tls


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Protection(), "TLS, logins and ACLs"),
        (Protection(tls=True), "logins and ACLs"),
        (Protection(logins=True, acls=True), "TLS"),
        (Protection(tls=True, logins=True), "ACLs"),
    ],
)
def test_a_secured_data_directory_was_opened_in_plaintext_without_a_word(
    tmp_path: Path, now: Protection, words: str
) -> None:
    prepare_folder(tmp_path)
    protection.refuse_less(tmp_path, now, insecure=False)  # nobody has served it yet
    protection.keep(tmp_path, ALL)
    protection.refuse_less(tmp_path, ALL, insecure=False)
    with pytest.raises(ClusterError, match=f"has been served with {words}, which this start leaves out") as raised:
        protection.refuse_less(tmp_path, now, insecure=False)
    assert "--secure" in str(raised.value)
    assert "--insecure" in str(raised.value)
    with pytest.warns(UserWarning, match=f"has been served with {words}, and now is not"):
        protection.refuse_less(tmp_path, now, insecure=True)


def test_after_it_was_opened_aloud_it_is_open(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    protection.keep(tmp_path, ALL)
    protection.keep(tmp_path, Protection())
    protection.refuse_less(tmp_path, Protection(), insecure=False)


def test_a_directory_of_an_older_start_is_known_by_the_file_of_its_administrator(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    assert protection.kept(tmp_path) == Protection()
    (tmp_path / PROPERTIES).touch(0o600)
    assert protection.kept(tmp_path) == ALL
