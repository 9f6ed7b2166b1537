"""The messages of voters on the control link, and the answers of ends that know nothing of voters."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from actors.links.codec import NotSpokenError
from actors.links.control import CODEC
from actors.links.versions import OWN, Spoken
from actors.links.voters import BetweenVoters
from actors.quorum.log import Entry, Snapshot, VoterId
from actors.quorum.messages import (
    ANYBODY,
    Append,
    Appended,
    InstallSnapshot,
    Leads,
    Message,
    Taken,
    Vote,
    Voted,
    WhoLeads,
)
from tests.support.control_ends import End, framed, framed_message, talk

ONE, TWO = VoterId(1, "one"), VoterId(2, "two")
ENTRY = Entry(7, 3, b"records", (ONE, TWO))

MESSAGES: dict[Message, list[Any]] = {
    Vote(3, (2, 6), True): [21, 3, [2, 6], True],
    Voted(3, 3, True, False): [22, 3, 3, True, False],
    Append(3, 9, (2, 6), (ENTRY,), 6): [23, 3, 9, [2, 6], [[7, 3, b"records", [[1, "one"], [2, "two"]]]], 6],
    Append(3, 9, (2, 6), (Entry(7, 3),), 6): [23, 3, 9, [2, 6], [[7, 3, b"", None]], 6],
    Appended(3, 9, True, 7): [24, 3, 9, True, 7],
    InstallSnapshot(3, 9, Snapshot(7, 3, (ONE,), b"image")): [25, 3, 9, [7, 3, [[1, "one"]], b"image"]],
    Taken(3, 9, 7): [26, 3, 9, 7],
    WhoLeads(): [27],
    Leads(3, ONE): [28, 3, [1, "one"]],
    Leads(3, None): [28, 3, None],
}


def voters(spoken: Spoken = OWN) -> tuple[End, End]:
    """One that asks, and the controller that it asks."""
    voter, controller = End("voter", spoken=spoken), End("controller")
    talk(voter, controller)
    return voter, controller


@pytest.mark.conformance("N-C-03")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_voter_speaks_on_the_control_link_and_names_both(message: Message) -> None:
    voter, controller = voters()
    assert (voter.protocol.peer, controller.protocol.peer) == ("controller", "voter")
    there, back = BetweenVoters(ONE, TWO, message), BetweenVoters(TWO, VoterId(1, ANYBODY), message)
    voter.protocol.send(there)
    controller.protocol.send(back)
    talk(voter, controller)
    assert (controller.messages, voter.messages) == ([there], [back])
    assert msgpack.unpackb(CODEC.encode(there)) == [20, [1, "one"], [2, "two"], MESSAGES[message]]


@pytest.mark.conformance("N-C-03")
def test_two_voters_do_not_meet_without_a_controller_between_them() -> None:
    """Each end's proof has its role in it: with one role on both ends it could be sent its own challenge."""
    one, other = End("voter"), End("voter")
    talk(one, other)
    assert (one.ready, other.ready) == (0, 0)


@pytest.mark.conformance("N-C-03")
def test_a_build_that_knows_of_no_voters_is_sent_nothing_of_them() -> None:
    voter, _ = voters(Spoken(0, 3, "0.1"))
    for message in MESSAGES:
        with pytest.raises(NotSpokenError):
            voter.protocol.send(BetweenVoters(ONE, TWO, message))


@pytest.mark.conformance("N-C-03")
def test_a_word_of_a_newer_voter_is_refused_by_name_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    _, controller = voters()
    known = BetweenVoters(ONE, TWO, WhoLeads())
    newer = framed([20, [1, "one"], [2, "two"], [39, 3, "of a newer build"]])
    controller.protocol.data_received(newer + framed_message(known))
    assert controller.messages == [known]
    assert not controller.transport.aborted
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("refused a message: control link: BetweenVoters.message: unknown tag 39: the voter (build ")
