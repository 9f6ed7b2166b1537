"""The launcher's books: how many shard processes each broker waits for, and which are on their way."""

from __future__ import annotations

from actors.controller.shard_starts import ShardStarts


def start_all(starts: ShardStarts) -> list[int]:
    """Begin whatever may begin; for which brokers, in order. The names are "0", "1" and so on."""
    begun: list[int] = []
    while (broker := starts.next()) is not None:
        starts.begun(broker, str(len(begun)))
        begun.append(broker)
    return begun


def test_those_under_way_count_until_the_broker_says_that_they_have_come() -> None:
    starts = ShardStarts()
    starts.want(7, 2, 0, ())
    assert start_all(starts) == [7, 7]
    starts.want(7, 2, 0, ())  # it asks again and again, and has seen none yet
    assert start_all(starts) == []
    starts.want(7, 2, 0, ["0"])  # one has come, and was given a partition
    assert start_all(starts) == [7]


def test_no_more_than_a_few_at_once_and_those_of_all_brokers_in_turn() -> None:
    starts = ShardStarts(at_once=4)
    starts.want(0, 5, 0, ())
    assert start_all(starts) == [0] * 4
    starts.want(1, 1, 0, ())
    starts.want(2, 2, 0, ())
    assert starts.next() is None
    starts.want(0, 2, 0, ["0", "1", "2", "3"])
    assert start_all(starts) == [0, 1, 2], "the last turn is for one that has none under way"


def test_one_that_failed_is_started_again_only_if_its_broker_still_asks() -> None:
    starts = ShardStarts()
    starts.want(0, 1, 0, ())
    assert start_all(starts) == [0]
    assert starts.under_way("0")
    starts.over("0")
    assert not starts.under_way("0")
    assert start_all(starts) == [], "the broker may have died, too"
    starts.want(0, 1, 0, ())
    assert start_all(starts) == [0]


def test_one_that_came_to_another_broker_leaves_its_own_waiting() -> None:
    starts = ShardStarts()
    starts.want(0, 1, 0, ())
    assert start_all(starts) == [0]
    starts.want(1, 0, 0, ["0"])
    starts.want(0, 1, 0, ())
    assert start_all(starts) == [0]


def test_names_of_a_former_controller_are_not_ours() -> None:
    starts = ShardStarts()
    starts.want(0, 1, 0, ["shard-0-4711-1"])
    assert start_all(starts) == [0]


def test_what_clients_wait_for_comes_before_spares() -> None:
    starts = ShardStarts(at_once=3)
    starts.want(0, 2, 0, ())
    starts.want(1, 4, 2, ())
    assert start_all(starts) == [1, 1, 0]


def test_a_broker_whose_processes_never_come_leaves_a_turn_for_the_others() -> None:
    starts = ShardStarts(at_once=4)
    starts.want(0, 1, 1, ())
    starts.want(1, 9, 9, ())
    assert start_all(starts) == [0, 1, 1]
    starts.want(0, 3, 3, ["0"])
    assert starts.next() == 0
    starts.begun(0, "healthy")
    assert starts.next() is None
    starts.want(0, 2, 2, ["healthy"])
    assert starts.next() == 0


def test_a_broker_that_has_gone_waits_for_nothing() -> None:
    starts = ShardStarts(at_once=2)
    starts.want(1, 9, 9, ())
    assert start_all(starts) == [1, 1]
    starts.forget(1)
    starts.want(0, 1, 1, ())
    assert starts.next() is None
    starts.over("0")
    assert start_all(starts) == [0]
    starts.forget(7)


def test_for_one_that_is_held_none_is_started_until_it_is_let_go() -> None:
    starts = ShardStarts()
    starts.want(0, 1, 1, ())
    starts.want(1, 1, 0, ())
    assert starts.next({0}) == 1
    starts.begun(1, "a")
    assert starts.next({0}) is None
    assert starts.next() == 0
