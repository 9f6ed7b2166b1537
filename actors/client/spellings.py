"""Security settings as Java's clients and librdkafka spell them, turned into ours: for files and for Spark's options.

`ssl.truststore.location` and `ssl.ca.location` are `ssl_cafile`, `sasl.jaas.config` has a user and a password, and so
on. Our own names are understood with dots and with underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from actors.client.config import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS, SECURITY_NAMES
from actors.client.errors import ConfigurationError
from actors.settings.kinds import SettingType, did_you_mean
from actors.settings.secret import Secret

_TEXTS: Final = tuple(name for name in SECURITY_NAMES if name not in ("ssl_context", "sasl_oauth_token_provider"))
_NAMES: Final = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.ca.location": "ssl_cafile",
    "ssl.truststore.certificates": "ssl_cadata",
    "ssl.ca.pem": "ssl_cadata",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.keystore.certificate.chain": "ssl_certdata",
    "ssl.certificate.pem": "ssl_certdata",
    "ssl.key.location": "ssl_keyfile",
    "ssl.keystore.key": "ssl_keydata",
    "ssl.key.pem": "ssl_keydata",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.cipher.suites": "ssl_ciphers",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    **{name.replace("_", "."): name for name in _TEXTS},
    **{name: name for name in _TEXTS},
}
_WITHOUT_MEANING: Final = (
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "ssl.provider",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
)
_CONVERT: Final = (
    "stores are PEM here; "
    "`keytool -importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12` and "
    "`openssl pkcs12 -in store.p12 -out store.pem -nodes` make a PEM file of one"
)


def _store_type(value: str) -> dict[str, Any]:
    if value.upper() != "PEM":
        raise ValueError(f"{value}: {_CONVERT}")
    return {}


def _no_password(value: str) -> dict[str, Any]:
    raise ValueError("PEM stores have no password; ssl.key.password opens an encrypted key")


def _identification(value: str) -> dict[str, Any]:
    if value.lower() not in ("https", "", "none"):
        raise ValueError(f"{value}: must be https, or empty to leave host names unchecked")
    return {"ssl_check_hostname": value.lower() == "https"}


def _verification(value: str) -> dict[str, Any]:
    if value.lower() != "true":
        raise ValueError("certificates are always verified; ssl.ca.location says by what")
    return {}


_ARGUMENT: Final = r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
_ARGUMENTS: Final = r"""(?:\s+[\w.]+\s*=\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+))*"""
_JAAS: Final = re.compile(rf"([\w.$]+)\s+required({_ARGUMENTS})\s*;?")
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE: Final = "OAuthBearerLoginModule"


def _jaas(value: str) -> dict[str, Any]:
    """The user and the password of a line for Java's login modules. An error shows nothing of it."""
    match = _JAAS.fullmatch(value)
    if match is None:
        raise ValueError('must be like: org.apache…ScramLoginModule required username="USER" password="PASSWORD";')
    module = match[1].rpartition(".")[2]
    if module == _TOKEN_MODULE and not match[2]:  # the place of its token stands elsewhere
        return {}
    if module not in _MODULES:
        raise ValueError(
            f"{match[1]}: only PlainLoginModule, ScramLoginModule, and {_TOKEN_MODULE} without options are understood"
        )
    given = {
        name: re.sub(r"\\(.)", r"\1", quoted or single or bare)
        for name, quoted, single, bare in re.findall(_ARGUMENT, match[2])
    }
    if other := sorted(given.keys() - {"username", "password"}):
        raise ValueError(f"{other[0]} is not understood, only username and password are")
    if missing := sorted({"username", "password"} - given.keys()):
        raise ValueError(f"{missing[0]} is missing")
    return {"sasl_plain_username": given["username"], "sasl_plain_password": Secret(given["password"])}


def _token_endpoint(value: str) -> dict[str, Any]:
    """Java reads a token from a file, too, if the endpoint is one (KIP-768)."""
    parts = urlsplit(value)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError(f"{value}: must be file:///PATH; who fetches tokens puts them into that file")
    return {"sasl_oauth_token_file": unquote(parts.path)}


_SPECIAL: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "ssl.truststore.type": _store_type,
    "ssl.keystore.type": _store_type,
    "ssl.truststore.password": _no_password,
    "ssl.keystore.password": _no_password,
    "ssl.endpoint.identification.algorithm": _identification,
    "enable.ssl.certificate.verification": _verification,
    "sasl.jaas.config": _jaas,
    "sasl.oauthbearer.token.endpoint.url": _token_endpoint,
}


def understood(key: str) -> bool:
    """True if `of` understands a key."""
    return key in _NAMES or key in _SPECIAL


def of(key: str, value: str) -> dict[str, Any]:
    """Our settings for one in another spelling. Raises ConfigurationError, with the key and without any secret."""
    try:
        if key in _SPECIAL:
            return _SPECIAL[key](value.strip())
        return {_NAMES[key]: _value(_NAMES[key], value)}
    except ValueError as error:
        raise ConfigurationError(f"{key}: {error}") from None


def _value(name: str, text: str) -> Any:
    setting = ADMIN_SETTINGS[name]
    if name in ("security_protocol", "sasl_mechanism"):
        text = text.upper()
    if setting.sensitive:
        return Secret(text)
    value: Any = text.strip()
    if setting.type is SettingType.BOOLEAN:
        value = {"true": True, "false": False}.get(value.lower(), value)
    if problem := setting.problem(value):
        raise ValueError(f"{setting.shown(value)}: {problem}")
    return value


def known_elsewhere(key: str) -> bool:
    """True if a key means something to a client, but nothing to a command."""
    name = key.replace(".", "_")
    return key in _WITHOUT_MEANING or any(name in table for table in (CONSUMER_SETTINGS, PRODUCER_SETTINGS))


def unknown(key: str) -> str:
    """The error about a key that nobody knows."""
    return f"there is no setting {key}{did_you_mean(key, [*_NAMES, *_SPECIAL])}"
