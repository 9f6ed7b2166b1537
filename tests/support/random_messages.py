"""Messages with random values in all fields that a version of them has, but those that are ours."""

from __future__ import annotations

import random
from typing import Any

from actors.wire.codec import ApiMessage

_OUR_TAGS = (10_000, 10_001)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _value(rng: random.Random, cls: Any, row: list[Any], version: int) -> Any:
    _, kind, _, nulls, _, tag = row
    if nulls and nulls[0] <= version <= nulls[1] and rng.random() < 0.2 and tag is None:
        return None
    if kind.startswith("[]"):
        return [_scalar(rng, cls, kind[2:], version) for _ in range(rng.choice((0, 1, 2, 5)))]
    return _scalar(rng, cls, kind, version, row[0])


def _scalar(rng: random.Random, cls: Any, kind: str, version: int, name: str = "") -> Any:
    if kind in _BITS:
        if name.startswith("error_code") or name.endswith("error_code"):
            return rng.randrange(-1, 100)
        low = 0 if name.endswith("_ms") else -(1 << (_BITS[kind] - 1))
        high = 1 << min(_BITS[kind] - 1, 40 if name.endswith("_ms") else 63)
        return rng.randrange(low, high)
    if kind == "uint16":
        return rng.randrange(0, 1 << 16)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.random()
    if kind == "uuid":
        return rng.randbytes(16)
    if kind == "string":
        return "".join(rng.choices("aé漢🚀-", k=rng.choice((0, 1, 5, 40, 200))))
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 130, 20_000)))
    struct_class = cls if kind == cls.__name__ else getattr(cls, kind)
    rows = [r for r in cls.layout.structs[kind] if r[2][0] <= version <= r[2][1] and r[5] not in _OUR_TAGS]
    return struct_class(**{r[0]: _value(rng, cls, r, version) for r in rows})


def random_message(cls: type[ApiMessage], version: int, seed: int) -> Any:
    """A message of this class; the same for the same seed."""
    return _scalar(random.Random(seed), cls, cls.__name__, version)
