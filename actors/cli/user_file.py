"""The properties file by which a user logs in, made beside that of the administrator who has set the password."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from actors.cli.errors import CliError
from actors.runtime.private import write_private
from actors.security.scram import ScramMechanism
from actors.settings.secret import Secret

_KEPT: Final = re.compile(r"bootstrap\.servers|security\.protocol|ssl\.(?!keystore|key\.|certificate).*")
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SPECIAL: Final = re.compile(r"[^ -~]|\\")


def text(
    name: str, password: Secret, mechanism: ScramMechanism, beside: Path | None, bootstrap_servers: str | None
) -> str:
    """The file's lines: how brokers are reached as in the file `beside`, which is read; then the user's own login.

    Without such a file the connection is not encrypted. `bootstrap_servers` are those at which the password was set;
    None: they were not asked.
    """
    from actors.settings.properties import properties

    kept = {key: value for _, key, value in properties(beside.read_text())} if beside is not None else {}
    found = {key: value for key, value in kept.items() if _KEPT.fullmatch(key)}
    if bootstrap_servers is not None:
        found["bootstrap.servers"] = bootstrap_servers
    in_tls = found.get("security.protocol", "").upper() in ("SSL", "SASL_SSL")
    found["security.protocol"] = "SASL_SSL" if in_tls else "SASL_PLAINTEXT"
    found["sasl.mechanism"] = mechanism.wire_name
    login = f"username={_quoted(name)} password={_quoted(password.reveal())}"
    found["sasl.jaas.config"] = f"{_MODULE} required {login};"
    return "".join(f"{key}={_escaped(value)}\n" for key, value in found.items())


def check(path: Path) -> None:
    """Raise CliError if there is such a file: it may be another user's."""
    if path.exists():
        raise CliError(f"--write: {path} exists: name another file, or remove it")


def write(path: Path, lines: str) -> None:
    """Make the file, which only this user may read. Raises CliError."""
    try:
        write_private(path, lines)
    except OSError as error:
        raise CliError(f"the password is set, but {path} cannot be written: {error.strerror}") from None


def _quoted(value: str) -> str:
    """For Java's login modules."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(value: str) -> str:
    """For a properties file, which Java reads as Latin-1."""
    return _SPECIAL.sub(lambda found: _escape(found[0]), value)


def _escape(character: str) -> str:
    if character == "\\":
        return "\\\\"
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else character
