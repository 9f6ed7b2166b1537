"""The form of a setting: its type, default, range and meaning, and the way in which text becomes its value.

No setting stands here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, Final

from actors import OutsideError
from actors.settings.secret import HIDDEN, Secret

MAX_SHORT: Final = 2**15 - 1
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1

PythonTypes = tuple[type, ...]
Value = bool | int | float | str | tuple[str, ...] | Secret | None


class SettingError(OutsideError, ValueError):
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
_WHOLE: Final = (SettingType.INT, SettingType.SHORT, SettingType.LONG)
_NUMBERS: Final = (*_WHOLE, SettingType.DOUBLE)
_PYTHON_TYPES: Final[dict[SettingType, PythonTypes]] = {
    SettingType.BOOLEAN: (bool,),
    SettingType.DOUBLE: (int, float),
    SettingType.LIST: (list, tuple),
    SettingType.CLASS: (object,),
    **dict.fromkeys(_WHOLE, (int,)),
    SettingType.STRING: (str,),
    SettingType.PASSWORD: (Secret, str),
}


@dataclass(frozen=True, slots=True)
class Inherited:
    """A broker setting a topic setting falls back to, and the factor between their units.

    `negative_is_no_limit`: any negative number stands for -1, in every unit.
    """

    name: str
    factor: int = 1
    negative_is_no_limit: bool = True

    def scale(self, value: Value) -> Value:
        """The broker's value in the topic's unit."""
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        return -1 if value < 0 and self.negative_is_no_limit else value * self.factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a broker, a topic or a client. A broker's and a topic's value is text; a client's is an object.

    `low` and `high` bound numbers, `choices` strings and each item of a list. `low_before`: the `low` of an older
    release, which holds for values that it stored. `drops_repeats`: an item that is named again in a list of `choices`
    counts once, instead of being refused. `ignores_case`: a choice may be written in any case. `nullable`: unset is a
    value of its own (None). `dynamic`: can change while the broker runs. `per_listener`: may be set for one listener by
    `listener.name.NAME.` before its name. `internal`: described only where it is set. `inherits`: the broker settings a
    topic setting falls back to; the first that has a value wins. `also`: Python types that a client takes beside its
    type's own. `check` returns what is wrong with a value of the right type, or None.
    """

    name: str
    type: SettingType
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    low_before: float | None = None
    choices: tuple[str, ...] = ()
    drops_repeats: bool = False
    ignores_case: bool = False
    nullable: bool = False
    dynamic: bool = False
    per_listener: bool = False
    internal: bool = False
    inherits: tuple[Inherited, ...] = ()
    also: PythonTypes = ()
    check: Callable[[Any], str | None] | None = None

    def parse(self, text: str) -> Value:
        """The value `text` stands for. Raises SettingError."""
        stripped = text.strip()
        if self.nullable and not stripped:
            return None
        try:
            value = self._items(stripped) if self.type is SettingType.LIST else _READ[self.type](stripped)
        except ValueError:
            raise self._error(text) from None
        if not self._allows(value):
            raise self._error(text)
        wrong = self.check(value) if self.check else None
        if wrong:
            raise SettingError(self.name, f"invalid value {self.shown(text)} for {self.name}: {wrong}")
        return value

    def restore(self, text: str) -> Value:
        """The value of a text that was stored: one that an older release allowed is allowed still. SettingError."""
        if self.type is SettingType.LIST and self.choices:
            text = ",".join(dict.fromkeys(_read_list(text)))
        older = self if self.low_before is None else replace(self, low=self.low_before)
        return older.parse(text)

    def problem(self, value: Any) -> str | None:
        """The fault of an object given as the value, in words: "must be ..."; None if it will do."""
        if value is None and self.nullable:
            return None
        if not self._is_of_type(value):
            return f"must be {self._types}"
        if not self._allows(value):
            return f"must be {self._nearest(value) if self.type in _NUMBERS else self.allowed}"
        return self.check(value) if self.check else None

    def format(self, value: Value) -> str | None:
        """A value as Kafka writes it: what DescribeConfigs answers and `parse` reads back, unless it is a secret."""
        if value is None:
            return None
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def shown(self, value: object) -> str:
        """A value as error texts have it."""
        return HIDDEN if self.sensitive else repr(value)

    @property
    def sensitive(self) -> bool:
        """True if its value is a secret, which is never shown."""
        return self.type is SettingType.PASSWORD

    @property
    def allowed(self) -> str:
        """The allowed values, in words: "an integer from 1 to 2147483647"."""
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

    @property
    def whole(self) -> bool:
        """True if its values are integers."""
        return self.type in _WHOLE

    @property
    def _types(self) -> str:
        if self.type is not SettingType.LIST and not self.also:
            return self.allowed
        return " or ".join(each.__name__ for each in (*_PYTHON_TYPES[self.type], *self.also))

    def _items(self, text: str) -> tuple[str, ...]:
        if not self.choices:
            return _read_list(text)
        items = tuple(map(str.strip, text.split(","))) if text else ()  # one that is empty is none of the choices
        distinct = tuple(dict.fromkeys(items))
        if len(distinct) < len(items) and not self.drops_repeats:
            raise SettingError(self.name, f"invalid value {text!r} for {self.name}: an item is named more than once")
        return distinct

    def _is_of_type(self, value: object) -> bool:
        types = (*_PYTHON_TYPES[self.type], *self.also)
        return isinstance(value, types) and not (isinstance(value, bool) and self.type in _NUMBERS)

    def _bounds(self) -> tuple[float, float]:
        widest = _WIDEST[self.type]
        low = -widest - 1 if self.low is None else self.low
        return low, widest if self.high is None else self.high

    def _nearest(self, value: float) -> str:
        low, high = self._bounds()
        return f"at least {low}" if value < low else f"at most {high}"

    def _allows(self, value: Any) -> bool:
        if self.type in _NUMBERS:
            low, high = self._bounds()
            return bool(low <= value <= high)
        items = value if isinstance(value, list | tuple) else (value,)
        return not self.choices or all((item.lower() if self.ignores_case else item) in self.choices for item in items)

    def _error(self, text: str) -> SettingError:
        return SettingError(self.name, f"invalid value {self.shown(text)} for {self.name}: must be {self.allowed}")


def unknown_setting(name: str, known: Iterable[str], what: str = "setting") -> SettingError:
    """The error for a name nobody knows, with the likeliest name that was meant."""
    return SettingError(name, f"unknown {what} {name!r}{did_you_mean(name, known)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error's text: "; did you mean X?" with the known name most like this one, or nothing."""
    written = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), written, n=1)
    return f"; did you mean {written[close[0]]}?" if close else ""


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
    SettingType.CLASS: str,
    SettingType.PASSWORD: Secret,
}
