"""One step of a member towards its target: the whole table."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.reconcile import Step, reconcile
from actors.coordinator.consumer.values import Current, Held, MemberState
from tests.support.consumer_groups import T1, T3, parts, shown_held

STATES = {
    "STABLE": MemberState.STABLE,
    "UNREVOKED": MemberState.UNREVOKED_PARTITIONS,
    "UNRELEASED": MemberState.UNRELEASED_PARTITIONS,
    "UNKNOWN": MemberState.UNKNOWN,
}
AE = 5


def held(text: str) -> Held:
    """The partitions of `0-2 T3:0`, all with assignment epoch 2."""
    return {topic_id: dict.fromkeys(numbers, 2) for topic_id, numbers in parts(text).items()}


def current(text: str) -> Current:
    """The state that a text such as `STABLE e3/p2 0-2 | 3` describes."""
    state, epochs, rest = text.split(" ", 2)
    epoch, previous = epochs[1:].split("/p")
    assigned, pending = rest.split(" | ")
    return Current(int(epoch), int(previous), STATES[state], held(assigned), held(pending))


def shown(made: Current | None) -> str:
    if made is None:
        return "fenced"
    state = {value: name for name, value in STATES.items()}[made.state]
    return f"{state} e{made.epoch}/p{made.previous_epoch} {shown_held(made.assigned)} | {shown_held(made.pending)}"


def stepped(
    text: str, target: str, owned: str | None, *, taken: str = "-", changed: bool = False, topics: str = "T1 T3"
) -> str:
    """The member after a step; `same` if the step changes nothing. Others have `taken`."""
    before = current(text)
    others = {(topic_id, each) for topic_id, numbers in parts(taken).items() for each in numbers}
    step = Step(
        target=parts(target),
        epoch=AE,
        owned=None if owned is None else parts(owned),
        subscribed=frozenset({"T1": T1, "T3": T3}[each] for each in topics.split()),
        has_changed=changed,
        is_free=lambda at: at not in others,
    )
    made = reconcile(before, step)
    return "same" if made is before else shown(made)


@pytest.mark.conformance("K-B-28")
def test_a_stable_member_at_the_targets_epoch_stays() -> None:
    assert stepped("STABLE e5/p4 0-2 | -", "3-5", None) == "same"
    assert stepped("STABLE e5/p4 0-2 | -", "0-2", None, changed=True) == "same"


@pytest.mark.conformance("K-B-29", "K-B-38", "K-B-133")
def test_a_stable_member_at_another_epoch_goes_on_to_its_target() -> None:
    assert stepped("STABLE e4/p3 0-2 | -", "0-2", None) == "STABLE e5/p4 0-2@2 | -"
    assert stepped("STABLE e4/p3 0-2 | -", "0-3", None) == "STABLE e5/p4 0-2@2 3@5 | -"


@pytest.mark.conformance("K-B-30")
@pytest.mark.parametrize("owned", [None, "0-5", "3", "0-2 T3:0 "])
def test_a_member_that_still_holds_what_it_has_to_give_back_stays(owned: str | None) -> None:
    text = "UNREVOKED e4/p4 0-2 | 3-5 T3:0"
    assert stepped(text, "0-2", owned) == "same"


@pytest.mark.conformance("K-B-31", "K-B-38", "K-B-39")
def test_a_member_that_has_given_back_goes_on() -> None:
    assert stepped("UNREVOKED e4/p4 0-2 | 3-5", "0-2", "0-2") == "STABLE e5/p4 0-2@2 | -"
    assert stepped("UNREVOKED e4/p3 0-2 | 3-5", "0-2", "-") == "STABLE e5/p4 0-2@2 | -"


@pytest.mark.conformance("K-B-31", "K-B-35", "K-B-41")
def test_a_member_that_has_given_back_may_have_to_give_back_more_at_the_same_epoch() -> None:
    made = stepped("UNREVOKED e4/p4 0-2 | 3-5", "0-1", "0-2")
    assert made == "UNREVOKED e4/p4 0-1@2 | 2@2"


@pytest.mark.conformance("K-B-32", "K-B-42")
def test_a_member_that_waits_gets_what_has_become_free() -> None:
    assert stepped("UNRELEASED e5/p5 0 | -", "0-2", None, taken="2") == "UNRELEASED e5/p5 0@2 1@5 | -"
    assert stepped("UNRELEASED e5/p5 0 | -", "0-2", None) == "STABLE e5/p5 0@2 1-2@5 | -"


@pytest.mark.conformance("K-B-37", "K-B-39")
def test_a_member_that_waits_for_nothing_new_has_its_previous_epoch_raised_once() -> None:
    assert stepped("UNRELEASED e5/p4 - | -", "0-2", None, taken="0-2") == "UNRELEASED e5/p5 - | -"
    assert stepped("UNRELEASED e5/p5 - | -", "0-2", None, taken="0-2") == "same"


@pytest.mark.conformance("K-B-33", "K-B-34")
def test_a_member_in_an_unknown_state() -> None:
    assert stepped("UNKNOWN e4/p3 0-2 | -", "0-2", None) == "fenced"
    assert stepped("UNKNOWN e4/p3 0-2 | -", "0-2", "0") == "fenced"
    assert stepped("UNKNOWN e4/p3 0-2 | 3", "0-1", "-") == "STABLE e5/p4 0-1@2 | -"


@pytest.mark.conformance("K-B-35", "K-B-41")
def test_revocation_comes_before_anything_new() -> None:
    assert stepped("STABLE e4/p3 0-2 | -", "2-4", None) == "UNREVOKED e4/p4 2@2 | 0-1@2"
    assert stepped("UNRELEASED e4/p3 0-2 | -", "2-4", "0-2") == "UNREVOKED e4/p4 2@2 | 0-1@2"


@pytest.mark.conformance("K-B-36", "K-B-40")
def test_a_member_that_holds_none_of_what_goes_need_not_give_it_back() -> None:
    assert stepped("STABLE e4/p3 0-2 | -", "2-4", "2") == "STABLE e5/p4 2@2 3-4@5 | -"
    assert stepped("STABLE e4/p3 0-2 | -", "3", "-") == "STABLE e5/p4 3@5 | -"


@pytest.mark.conformance("K-B-36", "K-B-37")
def test_a_member_gets_what_is_free_and_waits_for_the_rest() -> None:
    assert stepped("STABLE e4/p3 - | -", "0-2", "-", taken="1") == "UNRELEASED e5/p4 0,2@5 | -"
    assert stepped("STABLE e4/p3 0 | -", "0-1", None, taken="1") == "UNRELEASED e5/p4 0@2 | -"


@pytest.mark.conformance("K-B-14")
def test_what_a_member_has_to_give_back_itself_is_free_for_it() -> None:
    made = stepped("UNREVOKED e4/p4 0 | 1-2", "0-2", "0")
    assert made == "STABLE e5/p4 0@2 1-2@5 | -"


@pytest.mark.conformance("K-B-132", "K-B-28")
def test_topics_that_are_not_subscribed_any_more_leave_at_once() -> None:
    text = "STABLE e5/p3 0-2 T3:0 | -"
    assert stepped(text, "0-2 T3:0", None, changed=True, topics="T1") == "UNREVOKED e5/p5 0-2@2 | T3:0@2"
    assert stepped(text, "0-2 T3:0", "0-2", changed=True, topics="T1") == "STABLE e5/p5 0-2@2 | -"
    assert stepped(text, "0-2 T3:0", None, changed=True) == "same"


@pytest.mark.conformance("K-B-132", "K-B-30")
def test_topics_leave_a_member_that_has_to_give_back_others() -> None:
    text = "UNREVOKED e4/p3 0-2 T3:0 | 3-5"
    assert stepped(text, "0-2", None, changed=True, topics="T1") == "UNREVOKED e4/p4 0-2@2 | 3-5@2 T3:0@2"


@pytest.mark.conformance("K-B-132", "K-B-29")
def test_a_target_is_read_without_topics_that_are_not_subscribed() -> None:
    assert stepped("STABLE e4/p3 0 | -", "0-1 T3:0", None, changed=True, topics="T1") == "STABLE e5/p4 0@2 1@5 | -"
    assert stepped("STABLE e4/p3 T3:0 | -", "T3:0", None, topics="T1") == "UNREVOKED e4/p4 - | T3:0@2"
