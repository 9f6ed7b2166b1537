"""Any value of a type, made of scalars that a test chooses. Holds no tests."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st


def any_of(hint: Any, scalars: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Values of a field's type or of a dataclass."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in scalars:
        return scalars[origin]
    if origin in (Union, types.UnionType):
        return st.one_of(*(any_of(each, scalars) for each in arguments))
    if origin is types.NoneType:
        return st.none()
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(any_of(arguments[0], scalars), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(any_of(each, scalars) for each in arguments))
    if origin is Mapping:
        return st.dictionaries(*(any_of(each, scalars) for each in arguments), max_size=3)
    hints = get_type_hints(origin)
    return st.builds(origin, **{each.name: any_of(hints[each.name], scalars) for each in fields(origin)})
