"""The settings of one broker: parsed, checked one by one and against one another. Their table is in broker.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from actors.settings.broker import SETTINGS
from actors.settings.kinds import SettingError, Value
from actors.settings.known import broker_setting
from actors.settings.listeners import (
    LinkSecurity,
    LinkStores,
    Listener,
    ListenerConfig,
    advertised_of,
    link_security,
    link_stores,
    listeners_of,
)
from actors.settings.logins import check_sasl

_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
)
ASSIGNMENT_INTERVAL: Final = "group.consumer.assignment.interval.ms"
_ASSIGNMENT_INTERVALS = (
    ("group.consumer.min.assignment.interval.ms", ASSIGNMENT_INTERVAL),
    (ASSIGNMENT_INTERVAL, "group.consumer.max.assignment.interval.ms"),
)
_LESS = (
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
)


TOPIC_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")
COMPACTION_LAGS: Final = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")


class BrokerConfig(Mapping[str, Any]):
    """Every broker setting by its name; immutable, picklable unless a secret is among them.

    `config["group.max.size"]` is typed as the table says (ms and bytes are int, lists are tuples of str); the
    getters below say so to a type checker. `explicit` are the names set at the start, `dynamic` those changed
    since (KIP-226), `cluster_wide` those of them that were changed for all brokers; every other setting has its
    default. Settings of Kafka's without effect can be set and asked for as well, but only those that are set are
    iterated over.
    """

    __slots__ = ("_changes", "_started", "_values", "cluster_wide", "dynamic", "explicit")

    def __init__(
        self, started: Mapping[str, Value], changes: Mapping[str, Value], cluster_wide: Collection[str] = ()
    ) -> None:
        self._started = dict(started)
        self._changes = dict(changes)
        self._values = {name: setting.default for name, setting in SETTINGS.items()} | self._started | self._changes
        self.explicit = frozenset(started)
        self.dynamic = frozenset(changes)
        self.cluster_wide = self.dynamic.intersection(cluster_wide)
        _check_together(self._values)

    @classmethod
    def from_mapping(cls, texts: Mapping[str, str]) -> BrokerConfig:
        """Settings as people write them. Raises SettingError with the first that is unknown or out of range."""
        config = cls({name: broker_setting(name).parse(text) for name, text in texts.items()}, {})
        check_lags(*COMPACTION_LAGS, config)
        check_assignment_interval(config)
        return config

    def with_dynamic(self, changes: Mapping[str, str | None], cluster_wide: Collection[str] = ()) -> BrokerConfig:
        """This config with some settings changed while the broker runs; None undoes such a change. Raises SettingError.

        `cluster_wide` are the names of all settings that are changed for all brokers, not for this one alone. A change
        that an older release allowed is taken: the controller checks new ones.
        """
        held = dict(self._changes)
        for name, text in changes.items():
            if not broker_setting(name).dynamic:
                raise SettingError(name, f"{name} is read-only while the broker runs: set it and restart")
            if text is None:
                held.pop(name, None)
            else:
                held[name] = broker_setting(name).restore(text)
        return BrokerConfig(self._started, held, cluster_wide)

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        try:
            return broker_setting(name).default
        except SettingError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[type[BrokerConfig], tuple[object, ...]]:
        return BrokerConfig, (self._started, self._changes, self.cluster_wide)

    def integer(self, name: str) -> int:
        """The value of a whole number that is always set."""
        return cast(int, self._values[name])

    def number(self, name: str) -> float:
        """The value of a number that may have a fraction."""
        return cast(float, self._values[name])

    def boolean(self, name: str) -> bool:
        """The value of a setting that is true or false."""
        return cast(bool, self._values[name])

    def text(self, name: str) -> str | None:
        """The value of a string; None if it is unset."""
        return cast("str | None", self._values[name])

    def items_of(self, name: str) -> tuple[str, ...]:
        """The value of a list; empty if it is unset."""
        return cast("tuple[str, ...] | None", self._values[name]) or ()

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients, as they are set."""
        return listeners_of(self._values)

    @property
    def advertised_listeners(self) -> dict[str, Listener]:
        """The advertised listeners by their names, as far as they are set."""
        return advertised_of(self._values)

    @property
    def link_security(self) -> LinkSecurity:
        """The protection of the connections between controller and brokers."""
        return link_security(self._values)

    @property
    def link_stores(self) -> LinkStores:
        """The certificates with which a process accepts such connections in TLS."""
        return link_stores(self._values)

    @property
    def link_tls(self) -> LinkStores | None:
        """The certificates with which it makes them; None if it makes them without TLS."""
        return self.link_stores if self.link_security.encrypts else None

    def for_listener(self, name: str) -> ListenerConfig:
        """The settings that hold for one listener: its own over those for all."""
        return ListenerConfig(self._values, name)


def check_lags(least: str, most: str, values: Mapping[str, Any]) -> None:
    """Raises SettingError if records must stay uncompacted longer than they may.

    No part of every BrokerConfig: cluster and brokers that have changed such values on their own go on working.
    """
    if values[least] > values[most]:
        text = f"{least}={values[least]} must not exceed {most}={values[most]}: no record could be compacted in time"
        raise SettingError(least, text)


def check_assignment_interval(values: Mapping[str, Any]) -> None:
    """Raises SettingError if the interval is not within its bounds. As `check_lags`, no part of every BrokerConfig."""
    _check_order(_ASSIGNMENT_INTERVALS, values)


def _check_order(pairs: Iterable[tuple[str, str]], values: Mapping[str, Any]) -> None:
    for low, high in pairs:
        if values[low] > values[high]:
            raise SettingError(low, f"{low}={values[low]} must not exceed {high}={values[high]}")


def _check_together(values: Mapping[str, Any]) -> None:
    _check_order(_ORDERED, values)
    for low, high in _LESS:
        if values[low] >= values[high]:
            raise SettingError(low, f"{low}={values[low]} must be below {high}={values[high]}")
    idle, delay = "connections.max.idle.ms", "connection.failed.authentication.delay.ms"
    if 0 < values[idle] <= values[delay]:
        raise SettingError(delay, f"{delay}={values[delay]} must be below {idle}={values[idle]}")
    most, others = "max.connections.per.ip", "max.connections.per.ip.overrides"
    if values[most] == 0 and not values[others]:
        raise SettingError(most, f"{most}=0 keeps everybody out: {others} must say who may come")
    link_stores(values)
    for listener in listeners_of(values):
        if listener.protocol.sasl:
            check_sasl(ListenerConfig(values, listener.name), listener)
