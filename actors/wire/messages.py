"""Kafka's messages by name: `from actors.wire.messages import JoinGroupRequest`.

One class a message over all its versions, made at first use from schema.json (messages.pyi shows them to a type
checker). A field a version does not carry keeps its default when decoded and is left out when encoded.
Times are integers in milliseconds, uuids 16 bytes, record batches bytes.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from actors.wire.api_keys import ApiKey
from actors.wire.codec import ApiMessage, Message, make_message

__all__ = ["ApiMessage", "Message", "api_name", "message_class", "request_class", "response_class"]

_schema: dict[str, Any] = json.loads(files("actors.wire").joinpath("schema.json").read_text())
_names: dict[int, str] = {
    spec["api_key"]: name.removesuffix("Request") for name, spec in _schema.items() if name.endswith("Request")
}


@cache
def message_class(name: str) -> type[ApiMessage]:
    """The class called `name`, such as "FetchResponse". Raises KeyError if Kafka has no such message here."""
    return make_message(name, _schema[name])


def request_class(api_key: int) -> type[ApiMessage]:
    """The request class of an API key. Raises KeyError if it is unknown here."""
    return message_class(_names[api_key] + "Request")


def response_class(api_key: int) -> type[ApiMessage]:
    """The response class of an API key. Raises KeyError if it is unknown here."""
    return message_class(_names[api_key] + "Response")


def api_name(api_key: int) -> str:
    """Kafka's name of an API key, or "API key 999" if Kafka knows none."""
    try:
        return ApiKey(api_key).label
    except ValueError:
        return f"API key {api_key}"


def __getattr__(name: str) -> Any:
    if name in _schema:
        made = message_class(name)
        globals()[name] = made
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
