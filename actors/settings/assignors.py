"""The names of assignors in `group.consumer.assignors`: a short name, or Kafka's class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_CLASSES: Final = "org.apache.kafka.coordinator.group.assignor"
BY_CLASS: Final[Mapping[str, str]] = {
    f"{_CLASSES}.UniformAssignor": "uniform",
    f"{_CLASSES}.RangeAssignor": "range",
}
CHOICES: Final = (*BY_CLASS.values(), *BY_CLASS)


def assignor_names(values: Iterable[str]) -> tuple[str, ...]:
    """The names of these."""
    return tuple(BY_CLASS.get(value, value) for value in values)


def wrong_assignors(values: tuple[str, ...]) -> str | None:
    """The fault of a list of them, or None."""
    names = assignor_names(values)
    if not names:
        return "must name at least one"
    return None if len(set(names)) == len(names) else "an assignor is named more than once"
