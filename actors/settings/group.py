"""Settings that a group may have for itself, within bounds that are settings of brokers.

Kafka's keys of groups begin with the protocol they are for: `consumer.session.timeout.ms` is bounded by the brokers'
`group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.settings.config import BrokerConfig
from actors.settings.kinds import Setting, SettingError, unknown_setting
from actors.settings.known import group_settings

_HEARTBEAT: Final = "heartbeat.interval.ms"
_SESSION: Final = "session.timeout.ms"


def group_setting(name: str) -> Setting:
    """A group's setting. Raises SettingError for a name that Kafka does not know either."""
    found = group_settings().get(name)
    if found is None:
        raise unknown_setting(name, group_settings(), "group setting")
    return found


def group_value(name: str, own: Mapping[str, str], broker: BrokerConfig) -> Any:
    """The typed value of a group's setting: its own, else the broker's, else the default.

    A value of its own that lies outside the broker's bounds, because these have changed, is moved to the nearest one.
    """
    setting = group_setting(name)
    if name in own:
        return _clamped(setting.restore(own[name]), *_bounds(name, broker))
    return broker[setting.inherits[0].name] if setting.inherits else setting.default


def check_group_configs(configs: Mapping[str, str], present: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises SettingError if a group cannot have these settings instead of the `present` ones.

    A value that does not change is not refused: the bounds may have been others.
    """
    changed = {name: text for name, text in configs.items() if present.get(name) != text}
    for name, text in changed.items():
        value = group_setting(name).parse(text)
        low, high = _bounds(name, broker)
        if _clamped(value, low, high) != value:
            raise SettingError(name, f"{name}={value} must be {_said(low, high)}, as the brokers' settings say")
    for protocol in sorted({name.partition(".")[0] for name in configs.keys() | present.keys()}):
        heartbeat, session = f"{protocol}.{_HEARTBEAT}", f"{protocol}.{_SESSION}"
        if any(present.get(name) != configs.get(name) for name in (heartbeat, session)):
            _check_below(heartbeat, session, configs, broker)


def _check_below(low: str, high: str, configs: Mapping[str, str], broker: BrokerConfig) -> None:
    values = group_value(low, configs, broker), group_value(high, configs, broker)
    if values[0] >= values[1]:
        raise SettingError(low, f"{low}={values[0]} must be below {high}={values[1]}")


def _bounds(name: str, broker: BrokerConfig) -> tuple[Any, Any]:
    """The least and the highest value that brokers allow a group; None where nothing bounds it."""
    protocol, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")
    return broker.get(f"group.{protocol}.min.{rest}"), broker.get(f"group.{protocol}.max.{rest}")


def _said(low: Any, high: Any) -> str:
    bounds = (("at least", low), ("at most", high))
    return " and ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)


def _clamped(value: Any, low: Any, high: Any) -> Any:
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value
