"""Values from JSON: dataclasses, and classes that are made as pydantic's models are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from actors.client.errors import SerializationError
from actors.members.pools.handling.values import Values, from_json
from tests.support.member import record


class Size(Enum):
    SMALL = "S"
    LARGE = "L"


@dataclass(frozen=True)
class Item:
    name: str
    price: float
    size: Size = Size.SMALL


@dataclass
class Order:
    number: int
    items: list[Item]
    note: str | None = None
    by_day: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")


def test_a_dataclass_is_made_of_json_with_all_that_is_in_it() -> None:
    data = {
        "number": 7,
        "items": [{"name": "tea", "price": 2, "size": "L"}, {"name": "cup", "price": 1.5}],
        "note": None,
        "by_day": {"mo": 1},
        "pair": [1, "one"],
        "not a field": True,
    }
    assert from_json(Order, json.dumps(data).encode()) == Order(
        7, [Item("tea", 2.0, Size.LARGE), Item("cup", 1.5)], None, {"mo": 1}, (1, "one")
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"number": "7", "items": []}, "Order.number is str in the JSON, not int"),
        ({"number": True, "items": []}, "Order.number is bool in the JSON, not int"),
        ({"items": []}, "number"),
        ({"number": 1, "items": [{"name": "tea", "price": []}]}, r"Order.items\[0\].price is list"),
        ({"number": 1, "items": [], "note": 5}, "Order.note cannot be 5"),
        ({"number": 1, "items": [], "pair": [1]}, "Order.pair has 1 members"),
        ([], "Order is list in the JSON, not dict"),
    ],
)
def test_other_json_is_refused_and_the_error_says_where(data: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        from_json(Order, json.dumps(data).encode())


class Model:
    """The part of a pydantic model that counts here."""

    def __init__(self, data: bytes) -> None:
        self.data = json.loads(data)

    @classmethod
    def model_validate_json(cls, data: bytes) -> Model:
        return cls(data)


def test_a_deserializer_may_be_a_dataclass_a_model_or_any_function() -> None:
    item = b'{"name": "tea", "price": 2}'
    (made,) = Values({"key_deserializer": Model, "value_deserializer": Item}).of(
        [record(1)._replace(key=b"[1]", value=item)]
    )
    assert made.key.data == [1]
    assert made.value == Item("tea", 2.0)
    (made,) = Values({"value_deserializer": int}).of([record(1)._replace(value=b"5")])
    assert (made.key, made.value) == (b"k1", 5)


def test_json_that_does_not_fit_is_a_failure_of_the_deserializer() -> None:
    with pytest.raises(SerializationError, match="the deserializer failed"):
        Values({"value_deserializer": Item}).of([record(1)])
