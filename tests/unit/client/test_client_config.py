"""The typed settings of the clients have a field for each setting of the tables, with the setting's type."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from actors.client.config import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    SECURITY_NAMES,
    Settings,
    admin_config,
    consumer_config,
    producer_config,
)
from actors.client.errors import ConfigurationError
from actors.client.settings import ClientConfig, ConsumerConfig, ProducerConfig
from actors.settings.kinds import SettingType

_NUMBERS = (SettingType.INT, SettingType.LONG)


@pytest.mark.parametrize(
    ("table", "kind"),
    [(ADMIN_SETTINGS, ClientConfig), (CONSUMER_SETTINGS, ConsumerConfig), (PRODUCER_SETTINGS, ProducerConfig)],
    ids=["admin", "consumer", "producer"],
)
def test_each_setting_has_a_field_of_its_type(table: Settings, kind: type[ClientConfig]) -> None:
    types = {field.name: field.type for field in fields(kind)}
    assert set(types) == set(table) - set(SECURITY_NAMES) | {"security"}
    for name, setting in table.items():
        if setting.type in _NUMBERS:
            assert types[name] == "int", name
        elif setting.type is SettingType.BOOLEAN and name in types:
            assert types[name] == "bool", name
        elif setting.type is SettingType.STRING and name in types and name not in ("acks", "compression_type"):
            assert types[name] == ("str | None" if setting.nullable else "str"), name


@pytest.mark.parametrize("made", [admin_config({}), consumer_config({}), producer_config({})])
def test_they_do_not_change(made: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        made.client_id = "another"


@pytest.mark.parametrize("make", [admin_config, consumer_config, producer_config])
def test_an_error_names_the_setting_and_its_value(make: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^request_timeout_ms=-1: must be"):
        make({"request_timeout_ms": -1})
    with pytest.raises(ConfigurationError, match=r"unknown setting 'retry_backof_ms'.*retry_backoff_ms"):
        make({"retry_backof_ms": 1})
