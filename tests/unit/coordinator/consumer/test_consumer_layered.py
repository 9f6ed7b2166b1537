"""A mapping laid over another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.consumer.layered import Layered, add_all, has_none, remove_all

KEYS = st.integers(0, 5)
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)))


@given(st.dictionaries(KEYS, st.integers(0, 9)), CHANGES, CHANGES)
def test_it_is_as_a_copy_that_was_changed_and_what_is_below_stays(
    base: dict[int, int], first: list[tuple[int, int | None]], second: list[tuple[int, int | None]]
) -> None:
    below, before = dict(base), dict(base)
    lower: Layered[int, int] = Layered(below)
    expected_lower = _change(lower, before, first)
    upper: Layered[int, int] = Layered(lower)
    expected = _change(upper, dict(expected_lower), second)
    for made, wanted in ((upper, expected), (lower, expected_lower)):
        assert dict(made) == wanted
        assert len(made) == len(wanted) == len(list(made))
        assert [key in made for key in range(6)] == [key in wanted for key in range(6)]
    assert below == base


def _change(made: Layered[int, int], copy: dict[int, int], changes: list[tuple[int, int | None]]) -> dict[int, int]:
    for key, value in changes:
        if value is None:
            assert made.pop(key, None) == copy.pop(key, None)
        else:
            made[key] = copy[key] = value
    return copy


def test_what_is_not_there_cannot_be_taken_out() -> None:
    made: Layered[str, int] = Layered({"a": 1})
    del made["a"]
    with pytest.raises(KeyError):
        del made["a"]
    with pytest.raises(KeyError):
        made["a"]


@given(st.dictionaries(KEYS, st.integers(0, 9)), CHANGES, st.sets(KEYS), st.integers(0, 9))
def test_many_keys_at_once_are_as_one_after_another(
    base: dict[int, int], changes: list[tuple[int, int | None]], keys: set[int], value: int
) -> None:
    made: Layered[int, int] = Layered(Layered(dict(base)))
    copy = _change(made, dict(base), changes)
    for each, wanted in ((made, copy), (copy, dict(copy))):
        there, fresh = [key for key in keys if key in each], [key for key in keys if key not in each]
        assert has_none(each, there) is (not there)
        assert has_none(each, fresh) or each is made
        remove_all(each, there)
        add_all(each, fresh, value)
        wanted = {key: was for key, was in wanted.items() if key not in there} | dict.fromkeys(fresh, value)
        assert dict(each) == wanted
        assert len(each) == len(wanted)
        assert [each.get(key, -1) for key in range(6)] == [wanted.get(key, -1) for key in range(6)]
