"""Keys and values as a handler gets them: what the deserializers make of their bytes.

A deserializer is a function of bytes, an object with `deserialize(topic, data)`, a dataclass, or a pydantic model: the
last two are made from JSON. pydantic is recognised by its method and never imported here.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from actors.client import ConsumerRecord
from actors.client.config import CONSUMER_SETTINGS, resolve
from actors.client.consumer.decode import Deserializer, deserializer
from actors.client.consumer.drain import by_topic
from actors.members.pools.handling.spec import DESERIALIZERS


class Values:
    """Applies a pool's deserializers to records. Raises ConfigurationError if what is given is none."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        resolve(CONSUMER_SETTINGS, given)
        self._key_of, self._value_of = (by_topic(understood(given.get(name)), deserializer) for name in DESERIALIZERS)
        self._idle = all(given.get(name) is None for name in DESERIALIZERS)

    def of(self, records: Any) -> Any:
        """The records with their keys and values deserialized. Raises SerializationError."""
        if self._idle or not isinstance(records, list):
            return records
        return [self._of(record) for record in records]

    def _of(self, record: ConsumerRecord) -> ConsumerRecord:
        key_of, value_of = self._key_of(record.topic), self._value_of(record.topic)
        return record._replace(key=_applied(key_of, record.key), value=_applied(value_of, record.value))


def _applied(function: Deserializer | None, data: bytes | None) -> Any:
    return data if function is None or data is None else function(data)


def understood(given: Any) -> Any:
    """A dataclass or a pydantic model as a function of JSON; anything else as it is."""
    if isinstance(given, type):
        if hasattr(given, "model_validate_json"):
            return given.model_validate_json
        if dataclasses.is_dataclass(given):
            return partial(from_json, given)
    return given


def from_json(cls: type, data: bytes) -> Any:
    """An instance of a dataclass, made from a JSON object. Members without a field are left out.

    Its fields may be dataclasses, enums, lists, tuples, dicts and unions of these. Raises ValueError, and TypeError
    where the JSON has another type than the field, or lacks a field.
    """
    return _made(cls, json.loads(data), cls.__name__)


@cache
def _fields(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _made(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin in _READERS:
        return _READERS[origin](arguments, _checked(list if origin is not dict else dict, value, where), where)
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        given = _checked(dict, value, where)
        wanted = {name: each for name, each in _fields(origin).items() if name in given}
        return origin(**{name: _made(each, given[name], f"{where}.{name}") for name, each in wanted.items()})
    if isinstance(origin, type) and issubclass(origin, Enum):
        return origin(value)
    if origin is float and type(value) is int:
        return float(value)
    return _checked(origin, value, where) if origin in _PLAIN else value


def _one_of(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    for hint in hints:
        try:
            return _made(hint, value, where)
        except (TypeError, ValueError):
            continue
    raise TypeError(f"{where} cannot be {json.dumps(value)[:80]}")


def _checked(wanted: type, value: Any, where: str) -> Any:
    if type(value) is not wanted:
        raise TypeError(f"{where} is {type(value).__name__} in the JSON, not {wanted.__name__}")
    return value


def _listed(arguments: tuple[Any, ...], values: list[Any], where: str) -> list[Any]:
    hint = arguments[0] if arguments else Any
    return [_made(hint, value, f"{where}[{i}]") for i, value in enumerate(values)]


def _tupled(arguments: tuple[Any, ...], values: list[Any], where: str) -> tuple[Any, ...]:
    if not arguments or arguments[-1] is Ellipsis:
        return tuple(_listed(arguments, values, where))
    if len(arguments) != len(values):
        raise TypeError(f"{where} has {len(values)} members in the JSON, not {len(arguments)}")
    pairs = enumerate(zip(arguments, values, strict=True))
    return tuple(_made(hint, value, f"{where}[{i}]") for i, (hint, value) in pairs)


def _mapped(arguments: tuple[Any, ...], values: dict[str, Any], where: str) -> dict[str, Any]:
    hint = arguments[1] if arguments else Any
    return {name: _made(hint, value, f"{where}.{name}") for name, value in values.items()}


_PLAIN = (int, str, bool, float, types.NoneType)
_READERS: dict[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {list: _listed, tuple: _tupled, dict: _mapped}
