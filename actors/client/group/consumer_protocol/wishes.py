"""The topics that a member wants: by name, by its own pattern, or by an expression of the coordinator's. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from actors.client.group.holdings import Holdings
from actors.client.net.metadata import MetadataView


@dataclass(frozen=True, slots=True)
class Wish:
    """A heartbeat's subscription: these topics, or those that match a regular expression of the coordinator's (RE2)."""

    names: frozenset[str] = frozenset()
    expression: str | None = None


class Wishes:
    """The subscription. A pattern is matched here, with all topics that the metadata has; an expression is not."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._expression: str | None = None
        self._view = MetadataView()

    def names(self, topics: Iterable[str]) -> None:
        self._expression = None
        self._holdings.subscribe(topics)

    def pattern(self, matches: Callable[[str], bool]) -> None:
        self._expression = None
        self._holdings.subscribe_pattern(matches, self._view)

    def expression(self, expression: str) -> None:
        self._expression = expression
        self._holdings.subscribe(())

    def nothing(self) -> None:
        """The subscription is over."""
        self._expression = None
        self._holdings.unsubscribe()

    def match(self, view: MetadataView) -> None:
        """Match the pattern against refreshed metadata."""
        self._view = view
        self._holdings.match(view)

    @property
    def wish(self) -> Wish:
        return Wish(self._holdings.topics, self._expression)

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to; of an expression, those that it has led to."""
        if self._expression is not None:
            return frozenset(tp.topic for tp in self._holdings.owned)
        return self._holdings.topics

    @property
    def wants_all_topics(self) -> bool:
        """True if all topics have to be known: to match a pattern, or because any id may be assigned."""
        return self._holdings.by_pattern or self._expression is not None

    @property
    def known(self) -> bool:
        """True if the subscription can be said: a pattern needs metadata of all topics."""
        return not self._holdings.by_pattern or self._view.asked is None
