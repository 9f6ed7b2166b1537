"""The settings of what the Monitor serves by HTTP: metrics for Prometheus, and the console for browsers."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from actors.settings.kinds import Setting, SettingType


def _networks(values: tuple[str, ...] | None) -> str | None:
    for each in values or ():
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            return f"{each!r} is neither an address nor a network"
    return None


def _int(name: str, default: int | None, low: int, doc: str, **more: Any) -> Setting:
    return Setting(name=name, type=SettingType.INT, default=default, low=low, doc=doc, nullable=default is None, **more)


def _text(name: str, default: str | None, doc: str) -> Setting:
    return Setting(name=name, type=SettingType.STRING, default=default, doc=doc, nullable=default is None)


def _list(name: str, doc: str, **more: Any) -> Setting:
    return Setting(name=name, type=SettingType.LIST, default=None, doc=doc, nullable=True, **more)


def _bool(name: str, default: bool, doc: str) -> Setting:
    return Setting(name=name, type=SettingType.BOOLEAN, default=default, doc=doc)


PORTS: Final = (
    _int(
        "coterie.metrics.port",
        None,
        0,
        "The port of the Monitor's metrics for Prometheus, at `/metrics`. Unset: none. 0: any free port, which "
        "`logs/monitor.log` names.",
        high=65_535,
    ),
    _text(
        "coterie.metrics.host",
        "127.0.0.1",
        "The address that it serves them at. Whoever reaches it may read them: it asks nobody who they are.",
    ),
    _list(
        "coterie.metrics.names",
        "Names by which Prometheus may call the Monitor, beside localhost, addresses and the machine's own name.",
    ),
    _int(
        "coterie.metrics.series.max",
        200_000,
        100,
        "The most series that are served. Those of partitions are left out first, and counted in "
        "`coterie_metrics_series_left_out`.",
    ),
    _bool(
        "coterie.metrics.ray",
        False,
        "If true, the Monitor gives the lag of groups to Ray's own exporter, too (`ray.util.metrics`).",
    ),
    _int(
        "coterie.console.port",
        None,
        0,
        "The port of the Monitor's console. Unset: none. 0: any free port, which `logs/monitor.log` names.",
        high=65_535,
    ),
    _text(
        "coterie.console.host",
        "127.0.0.1",
        "The address that it serves it at. One that other machines reach needs a login, and a certificate.",
    ),
    _bool("coterie.console.write", False, "If true, visitors of the console may move the offsets of groups."),
    _list("coterie.console.names", "Names by which browsers may call the console, beside localhost and addresses."),
    _list(
        "coterie.console.proxies",
        "Addresses and networks of proxies before the console, as `10.0.0.7` or `10.1.0.0/16`: for whom they ask they "
        "say in `X-Forwarded-For`, which nobody else is believed. Logins that fail are slowed down by address.",
        check=_networks,
    ),
    _text(
        "coterie.console.client.config",
        None,
        "Properties file that says how the console reaches brokers. Unset: `client.properties` of the data directory, "
        "if it is there. Who visitors are, they say themselves: a user and a password in this file are not used.",
    ),
    _text(
        "coterie.console.ssl.keystore.location",
        None,
        "PEM file with a certificate and its key: the console is served by HTTPS.",
    ),
)
