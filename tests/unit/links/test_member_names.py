"""Members are told apart by their names, whatever their clients call themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.links.member_names import MemberNames
from actors.links.rebalances import NAMED_MAX, named
from actors.links.views import ClassicRebalanceView, MemberView, Waited

UUIDS = (
    "0a1b2c3d-4e5f-4a1b-8c2d-000000000001",
    "0a1b2c3d-4e5f-4a1b-8c2d-000000000002",
    "9f8e7d6c-4e5f-4a1b-8c2d-000000000001",
)


def member(member_id: str, client_id: str = "app", instance: str | None = None, process: str = "") -> MemberView:
    return MemberView(member_id, instance, client_id, "/10.0.0.1", {}, process)


@pytest.mark.parametrize(
    "members",
    [
        tuple(member(f"app-{each}") for each in UUIDS),
        tuple(member(each) for each in UUIDS),  # ids that clients have made themselves
        tuple(member(f"i-{each}", "app", "i") for each in UUIDS),
        (member("app-x"), member("x"), member("app")),
        tuple(member(f"{'a' * 200}-{each}", "a" * 200) for each in UUIDS),
        (member(""), member("app-")),
    ],
)
def test_no_two_members_have_one_name(members: tuple[MemberView, ...]) -> None:
    names = MemberNames(members)
    assert len({names.of(each.member_id).text for each in members}) == len(members)


def test_a_name_is_as_short_as_tells_it_from_others() -> None:
    alone, twins = MemberNames([member(f"app-{UUIDS[2]}")]), MemberNames([member(f"app-{each}") for each in UUIDS[:2]])
    assert alone.of(f"app-{UUIDS[2]}").text == "app 9f8e7d"
    assert twins.of(f"app-{UUIDS[0]}").text == f"app {UUIDS[0]}"


def test_members_that_are_gone_have_names_of_what_rebalances_tell() -> None:
    gone, killed, came = (f"app-{each}" for each in UUIDS)
    first = ClassicRebalanceView("g", 1, 1, "r", gone, "app", "/10.0.0.7", expelled=(gone,))
    then = ClassicRebalanceView(
        *("g", 2, 2, "r", f"{gone},{killed}"),
        replaced=(killed,),
        came=(came,),
        waited=(Waited(came, "join", 5, "app", "/10.0.0.8"),),
        processes={came: "pool pid 41 on node 3f2a"},
    )
    names = MemberNames([], [first, then])
    assert [names.of(each).host for each in (gone, killed, came)] == ["10.0.0.7", "", "10.0.0.8"]
    assert (names.of(killed).base, names.of(came).process) == ("app", "pid 41 on node 3f2a")
    assert names.of(came).full == f"{came} 10.0.0.8 pid 41 on node 3f2a"
    assert len({names.of(each).text for each in (gone, killed, came)}) == 3
    heirs = MemberNames([member(f"i-{UUIDS[2]}", "coterie-0", "i")], [replace(first, member_id=f"i-{UUIDS[0]}")])
    assert heirs.of(f"i-{UUIDS[0]}").base == "i", "as its next incarnation is called"
    assert names.of("never heard of").text == "never "[:6].strip()


def test_how_many_more_there_were_is_no_member() -> None:
    many = tuple(f"m{number}" for number in range(NAMED_MAX))
    assert named((*many, "and 12 more")) == (many, NAMED_MAX + 12)
    assert named(("a", "and 12 more")) == (("a", "and 12 more"), 2), "a member may call itself so"
    assert named(()) == ((), 0)
