"""The search for a serial order, and its model of a group, on histories small enough to judge by hand."""

from __future__ import annotations

import pytest

from tests.support.group_model import GroupModel, Request
from tests.support.serial_order import UndecidedError, serial_order


def history(*lines: tuple[Request, int, int]) -> list[Request]:
    """Requests with the times of their sending and of their answer."""
    made = []
    for request, request.invoked, request.answered in lines:
        made.append(request)
    return made


def order_of(*lines: tuple[Request, int, int], bound: int = 1_000) -> list[int] | None:
    requests = history(*lines)
    return serial_order(requests, GroupModel(requests, 1), bound)


def commit(offset: int, answer: int = 0, **fields: object) -> Request:
    return Request("commit", offset=offset, answer=answer, **fields)  # type: ignore[arg-type]


def fetch(offset: int) -> Request:
    return Request("fetch", answer=(offset,))


def test_commits_at_once_may_take_effect_in_either_order() -> None:
    both = [(commit(1), 0, 10), (commit(2), 1, 9)]
    assert order_of(*both, (fetch(1), 11, 12)) is not None
    assert order_of(*both, (fetch(2), 11, 12)) is not None
    assert order_of(*both, (fetch(2), 11, 12), (fetch(1), 13, 14)) is None, "the second cannot come back"


def test_a_commit_that_was_acknowledged_cannot_be_missing_afterwards() -> None:
    assert order_of((commit(1), 0, 1), (fetch(-1), 2, 3)) is None
    assert order_of((commit(1), 0, 4), (fetch(-1), 2, 3)) == [1, 0], "one that was under way may be"
    assert order_of((fetch(1), 0, 1), (commit(1), 2, 3)) is None, "nobody sees what was not sent yet"


def joining(member: str, generation: int, others: int = 1) -> Request:
    metadata = frozenset({(f"m{n}", b"x") for n in range(others)})
    answer = (0, generation, "m0", member, metadata if member == "m0" else frozenset())
    return Request("join", member=member, metadata=b"x", answer=answer)


def asking(member: str) -> Request:
    return Request("join", answer=(79, member))


def test_joins_are_parked_until_all_have_joined() -> None:
    first = [(asking("m0"), 0, 1), (joining("m0", 1), 2, 3), (asking("m1"), 4, 5)]
    again, other = joining("m0", 2, 2), joining("m1", 2, 2)
    assert order_of(*first, (other, 6, 11), (again, 8, 10)) == [0, 1, 2, 3, 4]
    assert order_of(*first, (other, 6, 7), (again, 8, 10)) is None, "the newcomer was answered before the other came"


def test_a_member_of_an_older_generation_is_refused() -> None:
    first = [(asking("m0"), 0, 1), (joining("m0", 1), 2, 3)]
    share = frozenset({("m0", b"all")})
    sync = Request("sync", member="m0", generation=1, assignments=share, answer=(0, b"all"))
    late = [(joining("m0", 2), 6, 7)]
    for answer, ok in ((0, False), (22, True), (25, False)):
        stale = commit(5, answer, member="m0", generation=1)
        found = order_of(*first, (sync, 4, 5), *late, (stale, 8, 9))
        assert (found is not None) is ok
    assert order_of(*first, (commit(5, 27, member="m0", generation=1), 4, 5)) == [0, 1, 2], "not before the sync"


def test_a_search_that_comes_to_its_bound_says_neither() -> None:
    many = [(commit(n), n, 100) for n in range(12)]
    with pytest.raises(UndecidedError):
        order_of(*many, (fetch(99), 101, 102), bound=500)
