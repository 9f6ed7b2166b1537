"""Messages of a member and its pool about records that may end a process, over their connection. No Ray."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection

from actors.links.member import MemberReport
from actors.links.member_counts import Committing, Done
from actors.links.member_deaths import Committed, InHand, Note, Notes, Span
from actors.members.member_link import MemberClient, MemberServer

SECRET = b"s" * 16
SPANS = (Span("t", 0, 5, 9),)


def member(port: Connection) -> None:
    """A process that says what it has in hand, and is gone before its interpreter does anything else."""
    server = MemberServer("127.0.0.1", SECRET, object(), MemberReport, lambda: None)
    port.send(server.port)
    port.recv()
    server.say(InHand(SPANS, alone=True, handled=4))
    server.say(Committing(Done(4)))
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_process_said_before_it_died_is_heard() -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=member, args=(theirs,))
    process.start()
    client = MemberClient.connect("127.0.0.1", ours.recv(), SECRET)
    said: list[InHand | Committed | Committing] = []
    client.on_records = said.append
    reports = client.reports()
    assert next(reports).state == "Starting", "so the member knows its pool"
    ours.send("die")
    assert list(reports) is not None  # they end with the process
    assert said == [InHand(SPANS, alone=True, handled=4), Committing(Done(4))]
    process.join(60)
    client.close()


def test_a_member_hears_of_notes_and_looks_what_has_ended_before_each_report() -> None:
    heard: queue.SimpleQueue[Notes] = queue.SimpleQueue()
    looked = threading.Event()
    server = MemberServer("127.0.0.1", SECRET, object(), MemberReport, lambda: None, learn=heard.put, look=looked.set)
    client = MemberClient.connect("127.0.0.1", server.port, SECRET)
    notes = Notes(3, (Note(SPANS[0], 2, "how"),))
    client.learn(notes)
    assert heard.get(timeout=60) == notes
    assert next(client.reports()).state == "Starting"
    assert looked.is_set()
    client.close()


def test_a_pool_that_takes_nothing_in_holds_up_no_record() -> None:
    """Its program is stopped, say; its members go on until they are tried alone."""
    server = MemberServer("127.0.0.1", SECRET, object(), MemberReport, lambda: None)
    client = MemberClient.connect("127.0.0.1", server.port, SECRET)
    assert next(client.reports()).state == "Starting"
    many = InHand(tuple(Span("t" * 200, number, 5, 9) for number in range(1000)))
    for _ in range(100):  # more than the kernel takes
        server.say(many)
    client.close()
