"""The rules by which settings of a SASL listener go together. The settings themselves are in `sasl.py`."""

from __future__ import annotations

from typing import Final

from actors.settings.kinds import SettingError
from actors.settings.listeners import Listener, ListenerConfig
from actors.settings.sasl import (
    BACKOFF,
    BACKOFF_MAX,
    ENABLED_MECHANISMS,
    EXPECTED_AUDIENCE,
    EXPECTED_ISSUER,
    JWKS_URL,
)

_UNVERIFIED: Final = {
    EXPECTED_ISSUER: "sasl.oauthbearer.allow.unverified.issuer",
    EXPECTED_AUDIENCE: "sasl.oauthbearer.allow.unverified.audience",
}
"""The proofs that a token is meant for a listener, each with the setting by which a listener goes without."""


def check_sasl(settings: ListenerConfig, listener: Listener) -> None:
    """Raise SettingError if the settings of a SASL listener do not belong together."""
    mechanisms = settings.items_of(ENABLED_MECHANISMS)
    if not mechanisms:
        text = f"listener {listener.name} is {listener.protocol}: {ENABLED_MECHANISMS} must name a mechanism for it"
        raise SettingError(ENABLED_MECHANISMS, text)
    if "OAUTHBEARER" in mechanisms:
        own = settings.for_mechanism("OAUTHBEARER")
        if own.text(JWKS_URL) is None:
            raise SettingError(JWKS_URL, f"listener {listener.name} takes tokens: {JWKS_URL} must say who signs them")
        low, high = own.integer(BACKOFF), own.integer(BACKOFF_MAX)
        if low > high:
            raise SettingError(BACKOFF, f"{BACKOFF}={low} must not exceed {BACKOFF_MAX}={high}")
        for expected in untold_of_tokens(settings):
            if not own[_UNVERIFIED[expected]]:
                text = f"listener {listener.name} takes tokens: {expected} must say which are for it"
                raise SettingError(expected, f"{text}, or {_UNVERIFIED[expected]}=true that any will do")


def untold_of_tokens(settings: ListenerConfig) -> list[str]:
    """The settings that would say which tokens are meant for a listener that takes any, and are not set."""
    if "OAUTHBEARER" not in settings.items_of(ENABLED_MECHANISMS):
        return []
    own = settings.for_mechanism("OAUTHBEARER")
    return [name for name in _UNVERIFIED if not own[name]]
