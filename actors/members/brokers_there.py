"""A check that brokers answer and let us in, before something begins that would wait for them in silence.

Clients wait out a broker's restart. A wrong port or a wrong password must not look like one for a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from actors.client import Admin
from actors.client.config import security_settings
from actors.client.errors import KafkaError

ASK_MS: Final = 4_000


def check_brokers(
    bootstrap_servers: str, settings: Mapping[str, Any], what: str, *, admin: Callable[..., Admin] = Admin
) -> None:
    """Raise an error of the client's within ASK_MS if no broker answers, in one paragraph that says what cannot begin.

    Of `settings` those of security count. Raises ConfigurationError for settings that cannot be.
    """
    with admin(bootstrap_servers=bootstrap_servers, client_id="coterie-check", **security_settings(settings)) as asked:
        ask_first(asked, what)


def ask_first(admin: Admin, what: str) -> None:
    """As `check_brokers`, with an Admin that is there already."""
    try:
        admin.describe_cluster(timeout_ms=ASK_MS)
    except KafkaError as error:
        raise type(error)(f"{what} cannot begin: {error}") from None
