"""A client's security settings: how it makes sure of a broker (`Tls`), and how it proves its identity (`Sasl`).

Values made of settings, and the rules that hold between these. Only `Sasl.secret` reads something.
"""

from __future__ import annotations

import logging
import os
import ssl
import stat
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from actors.client.errors import ConfigurationError
from actors.runtime.private import take_variable
from actors.security.tls import ClientTls, TlsError, client_context
from actors.settings.secret import Secret

log = logging.getLogger(__name__)

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
OAUTHBEARER: Final = MECHANISMS[-1]
SECRETS: Final = {
    "sasl_plain_password": "name a file there with sasl_password_file, or a variable with sasl_password_env",
    "sasl_oauth_token_provider": "have the token in a file there, and name it with sasl_oauth_token_file",
    "ssl_password": "name a key file that is not encrypted and that only its owner may read, with ssl_keyfile",
    "ssl_keydata": "name a key file there, with ssl_keyfile",
    "ssl_context": "name files there, with ssl_cafile, ssl_certfile and ssl_keyfile",
}
"""The settings that do not leave this process, each with what takes its place in another one."""
_PASSWORDS: Final = ("sasl_plain_password", "sasl_password_file", "sasl_password_env")
_from_variables: Final[dict[str, Secret]] = {}
_taking: Final = threading.Lock()  # clients of one process log in by threads of their own
_TOKENS: Final = ("sasl_oauth_token_provider", "sasl_oauth_token_file")


@dataclass(frozen=True, slots=True)
class Tls:
    """The encryption of connections, the brokers that are believed, and the client's own certificate.

    `made` is a context of the program's, which is taken as it is.
    """

    settings: ClientTls
    made: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """A context as the files are now. Raises ConfigurationError naming the setting, the file and the machine."""
        if self.made is not None:
            return self.made
        try:
            return client_context(self.settings)
        except TlsError as error:
            where = f" (on {os.uname().nodename})" if self._paths else ""
            raise ConfigurationError(f"{error}{where}") from error

    def files(self) -> tuple[tuple[int, int, int], ...]:
        """The marks of the context's files, which change when one is replaced. Raises OSError."""
        found = [os.stat(path) for path in self._paths]
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    @property
    def _paths(self) -> list[str]:
        own = self.settings
        return [path for path in (own.cafile, own.crlfile, own.certfile, own.keyfile) if path]


@dataclass(frozen=True, slots=True)
class Sasl:
    """The client's user, and the place of its password, or its token: exactly one of the five is set.

    With a token the user has no name here: the token says it.
    """

    mechanism: str
    username: str = ""
    password: Secret | None = None
    password_file: str | None = None
    password_env: str | None = None
    token_file: str | None = None
    token_provider: Any = field(default=None, repr=False)

    @property
    def named(self) -> str:
        """The user and the mechanism of the login, for texts."""
        return f"logging in {f'as {self.username!r} ' if self.username else ''}by {self.mechanism}"

    @property
    def source(self) -> str:
        """The settings to check when a broker does not let us in, with their file or variable."""
        if self.token_provider is not None:
            return "sasl_oauth_token_provider"
        if self.token_file is not None:
            return f"sasl_oauth_token_file={self.token_file}"
        if self.password_env is not None:
            return f"sasl_plain_username and sasl_password_env={self.password_env}"
        if self.password_file is not None:
            return f"sasl_plain_username and sasl_password_file={self.password_file}"
        return "sasl_plain_username and sasl_plain_password"

    def check(self) -> None:
        """Raise ConfigurationError if the password or the token is not where it should be. A provider is not asked."""
        if self.token_provider is None:
            self.secret()

    def secret(self) -> Secret:
        """The password or the token, read anew each time if it is not ours. Raises ConfigurationError, which names it.

        A provider's error is shown by its type alone.
        """
        if self.password is not None:
            return self.password
        if self.token_provider is not None:
            token = _ask_provider(self.token_provider, "token")
            if not isinstance(token, str):
                raise ConfigurationError("sasl_oauth_token_provider: token() must return a str")
            return Secret(token)
        if self.token_file is not None:
            return _read_secret("sasl_oauth_token_file", Path(self.token_file))
        if self.password_env is not None:
            return _taken_from(self.password_env)
        return _read_secret("sasl_password_file", Path(self.password_file or ""))

    def extensions(self) -> Mapping[str, str]:
        """The extensions that a token's provider adds to the token: its `extensions()`. Raises ConfigurationError."""
        if not hasattr(self.token_provider, "extensions"):
            return {}
        found = _ask_provider(self.token_provider, "extensions")
        if not isinstance(found, Mapping):
            raise ConfigurationError("sasl_oauth_token_provider: extensions() must return a mapping")
        return found


def _taken_from(variable: str) -> Secret:
    """The password in a variable, which is taken out of the environment, and kept for this process's next client."""
    with _taking:
        if found := take_variable(variable):
            _from_variables[variable] = Secret(found)
        if variable in _from_variables:
            return _from_variables[variable]
    raise ConfigurationError(
        f"sasl_password_env={variable}: there is no such variable here (the first client that reads it takes it out of "
        "the environment, so that processes which are started later do not have it: name a file for those)"
    )


def _ask_provider(provider: Any, method: str) -> Any:
    try:
        return getattr(provider, method)()
    except Exception as error:  # it is the user's, and may raise anything
        what = f"{method}() has failed: {type(error).__name__}"
        raise ConfigurationError(f"sasl_oauth_token_provider: {what}") from error


def _read_secret(setting: str, path: Path) -> Secret:
    name = f"{setting}={path}"
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRGRP | stat.S_IROTH):
                log.warning("%s: others can read this file; chmod 600 keeps it to its owner", name)
            text = file.read().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name}: is not UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"{name}: {error.strerror or error} on {os.uname().nodename}") from None
    if not text:
        raise ConfigurationError(f"{name}: the file is empty")
    return Secret(text)


@dataclass(frozen=True, slots=True)
class Security:
    """Plain connections have neither."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Security:
        """The security that a client's settings say.

        Raises ConfigurationError naming the setting; no file is looked at.
        """
        protocol = config["security_protocol"]
        encrypted, proves = protocol.endswith("SSL"), protocol.startswith("SASL")
        if not encrypted:
            _unused(config, "ssl_", "security_protocol=SSL or SASL_SSL")
        if not proves:
            _unused(config, "sasl_", "security_protocol=SASL_SSL or SASL_PLAINTEXT")
        return cls(_tls(config) if encrypted else None, _sasl(config, protocol) if proves else None)


NO_SECURITY: Final = Security()


def _given(config: Mapping[str, Any], prefix: str) -> list[str]:
    """The settings that somebody gave; `ssl_check_hostname` always has a value and is not among them."""
    return [n for n, v in config.items() if n.startswith(prefix) and v is not None and not isinstance(v, bool)]


def _unused(config: Mapping[str, Any], prefix: str, needs: str) -> None:
    for name in _given(config, prefix):
        raise ConfigurationError(f"{name} needs {needs}, but security_protocol={config['security_protocol']}")


def _tls(config: Mapping[str, Any]) -> Tls:
    others = [name for name in _given(config, "ssl_") if name != "ssl_context"]
    if config["ssl_context"] is not None and others:
        raise ConfigurationError(f"{others[0]} has no effect beside ssl_context: set it in the context")
    _one_of(config, ("ssl_cafile", "ssl_cadata"), required=False)
    _one_of(config, ("ssl_certfile", "ssl_certdata"), required=False)
    _one_of(config, ("ssl_keyfile", "ssl_keydata"), required=False)
    chain = config["ssl_certfile"] or config["ssl_certdata"]
    if not chain and (config["ssl_keyfile"] or config["ssl_keydata"]):
        raise ConfigurationError("ssl_keyfile needs ssl_certfile, the certificate that the key belongs to")
    if bool(config["ssl_certdata"]) != bool(config["ssl_keydata"]):
        raise ConfigurationError("ssl_certdata and ssl_keydata need one another, a certificate and its key")
    if not chain and config["ssl_password"] is not None:
        raise ConfigurationError("ssl_password needs ssl_certfile, the certificate whose key it opens")
    names = [field.name for field in fields(ClientTls)]
    return Tls(ClientTls(**{name: config[f"ssl_{name}"] for name in names}), config["ssl_context"])


def _sasl(config: Mapping[str, Any], protocol: str) -> Sasl:
    mechanism, username = config["sasl_mechanism"], config["sasl_plain_username"]
    if mechanism is None:
        raise ConfigurationError(f"security_protocol={protocol} needs sasl_mechanism: one of {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        return _by_token(config)
    for name in _TOKENS:
        if config[name] is not None:
            raise ConfigurationError(f"{name} needs sasl_mechanism={OAUTHBEARER}, but sasl_mechanism={mechanism}")
    if not username:
        raise ConfigurationError(f"sasl_mechanism={mechanism} needs sasl_plain_username")
    _one_of(config, _PASSWORDS, required=True)
    secret = config["sasl_plain_password"]
    if secret is not None and not secret.reveal():
        raise ConfigurationError("sasl_plain_password must not be empty")
    if "\0" in username:
        raise ConfigurationError("sasl_plain_username must not contain a NUL character")
    return Sasl(mechanism, username, secret, config["sasl_password_file"], config["sasl_password_env"])


def _by_token(config: Mapping[str, Any]) -> Sasl:
    for name in ("sasl_plain_username", *_PASSWORDS):
        if config[name] is not None:
            raise ConfigurationError(
                f"{name} has no effect with sasl_mechanism={OAUTHBEARER}: the token says who it is"
            )
    _one_of(config, _TOKENS, required=True)
    return Sasl(
        OAUTHBEARER, token_file=config["sasl_oauth_token_file"], token_provider=config["sasl_oauth_token_provider"]
    )


def _one_of(config: Mapping[str, Any], names: Iterable[str], *, required: bool) -> None:
    given = [name for name in names if config[name] is not None]
    if len(given) > 1:
        raise ConfigurationError(f"{' and '.join(given)} are given: one is enough")
    if required and not given:
        raise ConfigurationError(f"one of {', '.join(names)} is needed with sasl_mechanism={config['sasl_mechanism']}")


def refuse_secrets(settings: Mapping[str, Any], where: str) -> None:
    """Raise ConfigurationError if a secret is among settings that go to another process. It says what to do instead.

    Arguments of actors, tasks' closures and a DataFrame's lineage are kept where nobody looks after them.
    """
    for name, instead in SECRETS.items():
        if settings.get(name) is not None:
            raise ConfigurationError(f"{name} does not travel to {where}: {instead}")
