"""Settings that are secrets: read as such, and not shown by errors."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import pytest

from actors.client.config import resolve
from actors.client.errors import ConfigurationError
from actors.settings import BrokerConfig, Setting, SettingError, SettingType, broker_config_value
from actors.settings.secret import Secret

PASSWORD = Secret("swordfish")


def _refused(value: Any) -> str | None:
    return "must be long enough"


TABLE = {"password": Setting(name="password", type=SettingType.PASSWORD, default=None, doc="", nullable=True)}


@pytest.mark.conformance("XE-31")
def test_a_password_is_read_as_a_secret_and_not_written() -> None:
    config = BrokerConfig.from_mapping({"ssl.key.password": " swordfish "})
    assert config["ssl.key.password"] == PASSWORD
    assert broker_config_value("ssl.key.password", config).value is None
    with pytest.raises(TypeError, match="path of a file"):
        pickle.dumps(config)
    assert TABLE["password"].format(PASSWORD) == "[hidden]"
    assert (SettingType.PASSWORD, TABLE["password"].sensitive) == (9, True)


@pytest.mark.conformance("XE-31")
def test_an_error_does_not_show_a_brokers_password() -> None:
    setting = replace(TABLE["password"], check=_refused)
    with pytest.raises(SettingError, match=re.escape("invalid value [hidden] for password: must be long enough")):
        setting.parse("swordfish")


@pytest.mark.conformance("XE-31")
@pytest.mark.parametrize("value", ["swordfish", PASSWORD])
def test_an_error_does_not_show_a_clients_password(value: object) -> None:
    table = {"password": replace(TABLE["password"], check=_refused)}
    with pytest.raises(ConfigurationError, match=re.escape("password=[hidden]: must be long enough")):
        resolve(table, {"password": value})
    with pytest.raises(ConfigurationError, match=re.escape("password=[hidden]: must be any text")):
        resolve(table, {"password": b"swordfish"})


@pytest.mark.conformance("XE-31")
@pytest.mark.parametrize("value", ["swordfish", PASSWORD])
def test_a_client_takes_a_password_as_text_or_as_a_secret_and_keeps_a_secret(value: object) -> None:
    assert resolve(TABLE, {"password": value})["password"] == PASSWORD
