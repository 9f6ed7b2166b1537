"""A mapping laid over another one, which stays as it is: what an operation would change, before it has committed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class _Marker:
    __slots__ = ()


_UNCHANGED: Final = _Marker()
_GONE: Final = _Marker()


class Layered(MutableMapping[K, V]):
    """`base` with changes. It costs what is changed, not what is there."""

    __slots__ = ("_base", "_changed", "_length")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._changed: dict[K, V | _Marker] = {}
        self._length = len(base)

    def __getitem__(self, key: K) -> V:
        found = self._changed.get(key, _UNCHANGED)
        if found is _UNCHANGED:
            return self._base[key]
        if found is _GONE:
            raise KeyError(key)
        return cast("V", found)

    def get(self, key: K, default: Any = None) -> Any:
        found = self._changed.get(key, _UNCHANGED)
        if found is _UNCHANGED:
            return self._base.get(key, default)
        return default if found is _GONE else found

    def __contains__(self, key: object) -> bool:
        found = self._changed.get(cast("K", key), _UNCHANGED)
        return key in self._base if found is _UNCHANGED else found is not _GONE

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._length += 1
        self._changed[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._length -= 1
        self._changed[key] = _GONE

    def add_all(self, keys: Collection[K], value: V) -> None:
        """Put the same under many keys, none of which is there."""
        self._changed.update(dict.fromkeys(keys, value))
        self._length += len(keys)

    def remove_all(self, keys: Collection[K]) -> None:
        """Take out many keys, all of which are there."""
        self._changed.update(dict.fromkeys(keys, _GONE))
        self._length -= len(keys)

    def has_none(self, keys: Collection[K]) -> bool:
        """True if none of these is there; False also if one was and is no more."""
        return has_none(self._changed, keys) and has_none(self._base, keys)

    def __iter__(self) -> Iterator[K]:
        changed, base = self._changed, self._base
        yield from (key for key in base if changed.get(key, _UNCHANGED) is not _GONE)
        yield from (key for key, value in changed.items() if value is not _GONE and key not in base)

    def __len__(self) -> int:
        return self._length


# For many keys at once. One by one, they would take ten times as long.


def has_none(mapping: Mapping[K, Any], keys: Collection[K]) -> bool:
    """True if none of the keys is in a mapping. It may say False of one over another that has had some."""
    return mapping.has_none(keys) if isinstance(mapping, Layered) else mapping.keys().isdisjoint(keys)


def add_all(mapping: MutableMapping[K, V], keys: Collection[K], value: V) -> None:
    """Put the same under many keys, none of which is there."""
    if isinstance(mapping, Layered):
        mapping.add_all(keys, value)
    else:
        mapping.update(dict.fromkeys(keys, value))


def remove_all(mapping: MutableMapping[K, V], keys: Collection[K]) -> None:
    """Take out many keys, all of which are there."""
    if isinstance(mapping, Layered):
        mapping.remove_all(keys)
    else:
        for key in keys:
            del mapping[key]
