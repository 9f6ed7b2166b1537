"""Secrets: passwords and keys, of a type that shows them nowhere, and what to look connections up by.

Nothing of Coterie is imported here.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Hashable, Mapping, Set
from typing import Final, NoReturn, Self

HIDDEN: Final = "[hidden]"
_DIGEST: Final = "sha256"
_KEY_BYTES: Final = 32


class Secret:
    """A text that is shown as [hidden], compared in constant time, and does not leave its process.

    It cannot be pickled, and JSON and msgpack do not know it: whoever needs the text asks for it by `reveal`. Another
    process gets the path of a file, and reads that. It has no hash; `digest` and `cache_key` tell secrets apart.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, to be handed to what needs it and to nothing else."""
        return self._text

    def digest(self) -> bytes:
        """32 bytes that stand for the text in this process alone: their key is random, and anew in each process."""
        return hmac.digest(_key, self._text.encode("utf-8", "surrogatepass"), _DIGEST)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.digest(), other.digest())  # digests are of one length, whatever the texts are

    def __repr__(self) -> str:
        return HIDDEN

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a Secret is not pickled, because copies of it would stay where nobody looks after them: hand on the path "
            "of a file that holds it, or take its text by reveal()"
        )


def cache_key(value: object) -> Hashable:
    """A key that equal values share, and no others: to find the object that was made with a value.

    Secrets are in it as digests.

    It knows texts, numbers and bytes, and lists, sets and mappings of them. The key of anything else equals none, not
    even one of the same object: what cannot be told apart is not shared.
    """
    match value:
        case Secret():
            return (Secret, value.digest())
        case None | bool() | int() | float() | str() | bytes():
            return (type(value), value)
        case Mapping():
            return (type(value), frozenset((cache_key(name), cache_key(each)) for name, each in value.items()))
        case list() | tuple():
            return (type(value), tuple(cache_key(each) for each in value))
        case Set():
            return (type(value), frozenset(cache_key(each) for each in value))
    return object()


def _renew_key() -> None:
    global _key
    _key = os.urandom(_KEY_BYTES)


_key = b""
_renew_key()
os.register_at_fork(after_in_child=_renew_key)
