"""`--command-config FILE`: how a command proves who it is, in a properties file as Kafka's tools take it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from actors.cli import output
from actors.cli.errors import CliError

VARIABLE: Final = "COTERIE_COMMAND_CONFIG"
_KEY: Final = "coterie.command_config"
_PATH: Final = "coterie.command_config_path"
_OTHERS: Final = {"client.id": "client_id", "bootstrap.servers": "bootstrap_servers"}


def read(path: Path) -> dict[str, Any]:
    """The settings of a file, by our names. Those without an effect are noted; CliError names the file and the line."""
    from actors.client import spellings
    from actors.client.config import ADMIN_SETTINGS, resolve
    from actors.client.errors import ConfigurationError
    from actors.settings.kinds import SettingError
    from actors.settings.properties import properties

    try:
        text = path.read_text(encoding="utf-8")
        output.warn_of_readers(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"--command-config {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    found: dict[str, Any] = {}
    ignored = []
    try:
        for line, key, value in properties(text):
            if key in _OTHERS:
                found[_OTHERS[key]] = value
            elif spellings.understood(key):
                try:
                    found |= spellings.of(key, value)
                except ConfigurationError as error:
                    raise CliError(f"{path}, line {line}: {error}") from None
            elif spellings.known_elsewhere(key):
                ignored.append(key)
            else:
                raise CliError(f"{path}, line {line}: {spellings.unknown(key)}")
        resolve(ADMIN_SETTINGS, found)
    except (ConfigurationError, SettingError) as error:
        raise CliError(f"{path}: {error}") from None
    if ignored:
        output.note(f"note: {path}: {', '.join(ignored)} has no effect on commands")
    return found


def take(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Read the file for the command that is called. Its bootstrap.servers are those of who gives no others."""
    if path is None:
        return
    settings = read(path)
    if servers := settings.pop("bootstrap_servers", None):
        context.default_map = {**(context.default_map or {}), "bootstrap_server": servers}
    use(context, settings, path)


def use(context: click.Context, settings: Mapping[str, Any], path: Path) -> None:
    """Have these settings, which stand in this file, be those of the command's clients."""
    context.meta[_KEY] = settings
    context.meta[_PATH] = path


def client_settings() -> Mapping[str, Any]:
    """The settings of clients in the file of the command that runs; none without a file."""
    context = click.get_current_context(silent=True)
    found: Mapping[str, Any] = context.meta.get(_KEY, {}) if context is not None else {}
    return found


def file() -> Path | None:
    """The file of the command that runs, if it has one."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_PATH) if context is not None else None


option = click.option(
    "--command-config",
    type=click.Path(path_type=Path),
    envvar=VARIABLE,
    show_envvar=True,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=take,
    help="Properties file with security.protocol, sasl.* and ssl.*, as Kafka's tools and librdkafka spell them.",
)
