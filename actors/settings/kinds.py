"""What a setting is: its type, default, range and meaning, and how text becomes its value. No setting stands here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, Final

from actors.errors import CoterieError

MAX_SHORT: Final = 2**15 - 1
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | None


class SettingError(CoterieError, ValueError):
    """A setting that does not exist or a value it cannot have; the message is one line and says what is allowed."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class SettingType(IntEnum):
    """The types of Kafka's configuration, with their codes in DescribeConfigs (KIP-226)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_WIDEST: Final = {
    SettingType.SHORT: MAX_SHORT,
    SettingType.INT: MAX_INT,
    SettingType.LONG: MAX_LONG,
    SettingType.DOUBLE: sys.float_info.max,
}
_TEXTS: Final = (SettingType.STRING, SettingType.CLASS, SettingType.PASSWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `low` and `high` bound numbers, `choices` strings and each item of a list.

    `nullable`: unset is a value of its own (None). `dynamic`: can change while the broker runs.
    `internal`: described only where it is set. `check` returns what is wrong with a value of the right type, or None.
    """

    name: str
    type: SettingType
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    nullable: bool = False
    dynamic: bool = False
    internal: bool = False
    check: Callable[[Any], str | None] | None = None

    def parse(self, text: str) -> Value:
        """The value `text` stands for. Raises SettingError."""
        stripped = text.strip()
        if self.nullable and not stripped:
            return None
        try:
            value = _READ[self.type](stripped)
        except ValueError:
            raise self._error(text) from None
        if not self._allows(value):
            raise self._error(text)
        wrong = self.check(value) if self.check else None
        if wrong:
            raise SettingError(self.name, f"invalid value {text!r} for {self.name}: {wrong}")
        return value

    def format(self, value: Value) -> str | None:
        """A value as Kafka writes it: what DescribeConfigs answers and `parse` reads back."""
        if value is None:
            return None
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, tuple) else str(value)

    @property
    def sensitive(self) -> bool:
        """Whether its value is a secret, which is never shown."""
        return self.type is SettingType.PASSWORD

    @property
    def allowed(self) -> str:
        """What values there are, in words: "an integer from 1 to 2147483647"."""
        if self.type is SettingType.BOOLEAN:
            return "true or false"
        if self.type is SettingType.LIST:
            return f"a comma-separated list of {', '.join(self.choices)}" if self.choices else "a comma-separated list"
        if self.type in _TEXTS:
            return f"one of {', '.join(self.choices)}" if self.choices else "any text"
        kind = "a number" if self.type is SettingType.DOUBLE else "an integer"
        if self.type is SettingType.DOUBLE and self.low is None and self.high is None:
            return kind
        low, high = self._bounds()
        return f"{kind} from {low} to {high}"

    def _bounds(self) -> tuple[float, float]:
        widest = _WIDEST[self.type]
        low = -widest - 1 if self.low is None else self.low
        return low, widest if self.high is None else self.high

    def _allows(self, value: Value) -> bool:
        if isinstance(value, tuple):
            return all(item in self.choices for item in value) if self.choices else True
        if isinstance(value, str):
            return not self.choices or value in self.choices
        if isinstance(value, bool) or value is None:
            return True
        low, high = self._bounds()
        return low <= value <= high

    def _error(self, text: str) -> SettingError:
        return SettingError(self.name, f"invalid value {text!r} for {self.name}: must be {self.allowed}")


def unknown_setting(name: str, known: list[str], what: str = "setting") -> SettingError:
    """The error for a name nobody knows, with the likeliest name that was meant."""
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    return SettingError(name, f"unknown {what} {name!r}" + (f"; did you mean {close[0]}?" if close else ""))


def _read_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _read_int(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):  # int() takes more, such as "1_000"
        raise ValueError(text)
    return int(text)


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(item for part in text.split(",") if (item := part.strip()))


_READ: Final[dict[SettingType, Callable[[str], Value]]] = {
    SettingType.BOOLEAN: _read_bool,
    SettingType.STRING: str,
    SettingType.INT: _read_int,
    SettingType.SHORT: _read_int,
    SettingType.LONG: _read_int,
    SettingType.DOUBLE: float,  # nan falls out at the bounds: it is not between them
    SettingType.LIST: _read_list,
    SettingType.CLASS: str,
    SettingType.PASSWORD: str,
}
