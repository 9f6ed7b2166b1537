"""The state of a pool by the records of the topic `__coterie_pools`."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import msgpack
import pytest

from actors.links.member_deaths import Note, Span
from actors.members.autoscale import Autoscale
from actors.members.deployment import view
from actors.members.deployment.book import Book
from actors.members.deployment.records import (
    Deaths,
    Deployment,
    Good,
    Pause,
    PoolRecord,
    Progress,
    Record,
    Restart,
    Size,
    Term,
    autoscale_values,
    check_name,
    decode,
    digest_of,
    encode,
    key_of,
    keys_of,
    security_texts,
)
from actors.members.deployment.versions import load
from actors.members.pools.plan import PoolError
from tests.support.pools_topic import FIRST

SECOND = replace(FIRST, id="b", version=2, size=5)
POLICY = Autoscale(min_size=2, max_size=8, target_lag=100, stabilization_s=1.5)


def book(*records: Record | None, name: str = "p") -> Book:
    """A topic with these records of one pool; None is the end of its version."""
    made = Book()
    for offset, record in enumerate(records):
        key = keys_of(name)[0] if record is None else key_of(name, record)
        made.apply(offset, key, None if record is None else encode(record))
    return made


def pool(*records: Record | None) -> PoolRecord:
    found = book(*records).pool("p")
    assert found is not None
    return found


def test_a_record_is_the_same_after_the_topic() -> None:
    found = pool(FIRST, Size("one", 4), Pause("one", True), Restart("one", "r"), Term("one", "s"), Good("one", FIRST))
    assert (found.deployment, found.good) == (FIRST, FIRST)
    assert (found.size, found.paused, found.restart, found.term) == (4, True, "r", "s")


def test_a_version_has_the_same_digest_after_the_topic_and_another_one_has_another() -> None:
    settings = {"ssl_cafile": json.dumps("/ca.pem"), "ssl_check_hostname": json.dumps(False)}
    followed = replace(FIRST, autoscale=autoscale_values(POLICY), settings=settings, size=None)
    for given in (FIRST, followed):
        read = decode(encode(replace(given, seal=b"sealed")))
        assert isinstance(read, Deployment)
        assert digest_of(read) == digest_of(given)
    changed = [
        replace(FIRST, body=b"other"),
        replace(FIRST, settings=settings),
        replace(FIRST, bootstrap_servers="x:1"),
    ]
    assert len({digest_of(each) for each in (FIRST, followed, *changed)}) == 5


def test_the_size_that_was_wished_last_holds() -> None:
    assert pool(FIRST).size == 3
    assert pool(FIRST, Size("one", 4)).size == 4
    assert pool(FIRST, Size("one", 4), SECOND).size == 5
    assert pool(FIRST, Size("one", 4), SECOND, Size("one", 1)).size == 1


def test_compaction_changes_nothing() -> None:
    """It keeps the last record of each key, at its offset."""
    whole = book(FIRST, Size("one", 4), Size("one", 6), SECOND, Pause("one", True), Pause("one", False))
    compacted = Book()
    for offset, record in ((2, Size("one", 6)), (3, SECOND), (5, Pause("one", False))):
        compacted.apply(offset, key_of("p", record), encode(record))
    assert compacted.pool("p") == whole.pool("p")


def test_a_stopped_pool_is_none_and_its_wishes_are_not_those_of_the_next() -> None:
    again = replace(FIRST, incarnation="two")
    assert book(FIRST, None).pool("p") is None
    assert book(FIRST, None).names() == []
    found = pool(FIRST, Size("one", 9), Pause("one", True), Progress("one", "a", rolled_back="bad"), None, again)
    assert (found.size, found.paused, found.rolled_back) == (3, False, None)


def test_a_version_that_was_given_up_is_not_wanted_until_the_next_one() -> None:
    given_up = Progress("one", "b", rolled_back="bad")
    found = pool(FIRST, Good("one", FIRST), SECOND, given_up)
    assert (found.wanted, found.rolled_back, found.size) == (FIRST, "bad", 3)
    third = replace(SECOND, id="c", version=3)
    assert pool(FIRST, Good("one", FIRST), SECOND, given_up, third).wanted == third


def test_a_pool_that_follows_its_load_begins_with_the_size_it_had() -> None:
    scaled = replace(FIRST, size=None, autoscale=autoscale_values(POLICY))
    assert scaled.policy == POLICY
    assert pool(scaled).size == 2
    assert pool(scaled, Progress("one", "a", size=6)).size == 6
    narrower = replace(scaled, id="b", autoscale=autoscale_values(replace(POLICY, max_size=4)))
    assert pool(scaled, Progress("one", "a", size=6), narrower).size == 4


def test_settings_of_clients_keep_their_types() -> None:
    settings = {"security_protocol": "SASL_SSL", "ssl_check_hostname": False}
    assert replace(FIRST, settings=security_texts(settings)).security == settings


@pytest.mark.parametrize("value", [b"", b"\x02later", b"\x01nonsense"])
def test_a_record_that_cannot_be_read_says_so_and_hides_no_other_pool(value: bytes) -> None:
    found = book(FIRST)
    found.apply(7, b"other", value)
    with pytest.raises(PoolError, match="__coterie_pools has a record"):
        found.pool("other")
    assert found.pool("p") is not None
    assert found.names() == ["other", "p"]
    found.apply(8, b"other", encode(FIRST))
    assert found.pool("other") is not None


def test_who_looks_after_one_pool_keeps_nothing_of_the_others() -> None:
    found = Book("p")
    for offset, name in enumerate(("a", "p", "p-0")):
        assert found.apply(offset, key_of(name, FIRST), encode(FIRST)) == name
    found.apply(3, b"b", b"nonsense")
    assert found.names() == ["p"]


@pytest.mark.parametrize("name", ["", "a/b", ".", "x" * 231, "ö", "a b"])
def test_names_that_keys_and_members_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(PoolError, match="name must be"):
        check_name(name)


SPRUNG: list[str] = []


def spring() -> None:
    SPRUNG.append("unpickled")


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (spring, ())


def test_who_lists_pools_runs_nothing_of_what_others_wrote() -> None:
    trapped = replace(FIRST, body=pickle.dumps(Trap()))
    found = pool(trapped, Good("one", trapped))
    assert view.unsupervised("p", found).version == 1
    assert SPRUNG == []
    with pytest.raises(PoolError, match="version 1 cannot be loaded"):
        load(found.deployment, "h:1", "mark")
    assert SPRUNG == ["unpickled"], "a supervisor does"


def test_the_end_of_a_pool_takes_its_version_first() -> None:
    """A reader in between sees no pool, rather than one with an older size."""
    assert keys_of("p")[0] == b"p"
    assert len(set(keys_of("p"))) == 8


# --- records of another writer ---

NONSENSE: list[tuple[str, Record]] = [
    ("p/size", Size("one", 10**9)),
    ("p/size", Size("one", 0)),
    ("p/size", Size("one", -1)),
    ("p/size", Pause("one", True)),
    ("p/paused", FIRST),
    ("p/else", Size("one", 1)),
    ("p", Size("one", 1)),
    ("p", Good("one", FIRST)),
    ("p", replace(FIRST, size=10**9)),
    ("p", replace(FIRST, size=None)),
    ("p", replace(FIRST, version=0)),
    ("p", replace(FIRST, version=1 << 62)),
    ("p", replace(FIRST, deployed_at_ms=10**18)),
    ("p", replace(FIRST, deployed_at_ms=-1)),
    ("p", replace(FIRST, topics=())),
    ("p", replace(FIRST, topics=("a/b",))),
    ("p", replace(FIRST, group_id="")),
    ("p", replace(FIRST, incarnation="")),
    ("p", replace(FIRST, group_id="g" * 100_000)),
    ("p", replace(FIRST, autoscale={"unheard_of": 1.0})),
    ("p", replace(FIRST, autoscale={"max_size": float("inf")})),
    ("p", replace(FIRST, autoscale={"max_size": float("nan")})),
    ("p", replace(FIRST, autoscale={"max_size": 1e9})),
    ("p", replace(FIRST, autoscale={})),
    ("p", replace(FIRST, settings={"ssl_cafile": "no json"})),
    ("p", replace(FIRST, settings={"ssl_cafile": "[" * 30_000})),
    ("p", replace(FIRST, settings={"ssl_cafile": '{"a": 1}'})),
    ("p", replace(FIRST, settings={"bootstrap_servers": '"x"'})),
    ("p/good", Good("one", replace(FIRST, size=10**9))),
    ("p/good", Good("one", replace(FIRST, incarnation="another"))),
    ("p/progress", Progress("one", "a", done=(10**9,))),
    ("p/progress", Progress("one", "a", done=(1, 1))),
    ("p/progress", Progress("one", "a", size=10**9)),
    ("p/progress", Progress("one", "a", rolled_back="x" * 100_000)),
    *(
        ("p/deaths", Deaths("one", "a", "", (Note(span, deaths),)))
        for span, deaths in [
            (Span("a/b", 0, 1, 2), 1),
            (Span("orders", -1, 1, 2), 1),
            (Span("orders", 0, -1, 2), 1),
            (Span("orders", 0, 2, 2), 1),
            (Span("orders", 0, 2, 1 << 63), 1),
            (Span("orders", 0, 1, 2), 0),
            (Span("orders", 0, 1, 2, b"short"), 1),
        ]
    ),
    ("p/deaths", Deaths("one", "a", "", (Note(Span("orders", 0, 1, 2), 3, died="x" * 100_000),))),
]


@pytest.mark.parametrize(("key", "record"), NONSENSE)
def test_a_record_that_makes_no_sense_is_as_if_it_had_not_been_written(key: str, record: Record) -> None:
    """One such record made `pools list` fail for all, and a size of 10^9 was taken."""
    before = (FIRST, Size("one", 4))
    found = book(*before)
    assert found.apply(7, key.encode(), encode(record)) == "p"
    assert found.pool("p") == pool(*before)
    assert view.unsupervised("p", pool(*before)).size == 4


@pytest.mark.parametrize(("key", "record"), [each for each in NONSENSE if each[0] == "p"])
def test_a_version_that_makes_no_sense_is_refused_and_hides_no_other_pool(key: str, record: Record) -> None:
    found = book(FIRST)
    found.apply(7, b"other", encode(record))
    with pytest.raises(PoolError, match="__coterie_pools has a record that makes no sense"):
        found.pool("other")
    assert found.names() == ["other", "p"]
    assert found.pool("p") == pool(FIRST)


@pytest.mark.parametrize("key", [b"", b"a b", b"\xff", b"\x1b[2J", b"..", b"x" * 300, b"/size"])
def test_a_record_of_a_name_that_no_pool_has_is_of_none(key: bytes) -> None:
    found = book(FIRST)
    found.apply(7, key, encode(FIRST))
    assert found.names() == ["p"]


def test_a_stopped_pool_whose_record_is_written_again_stays_stopped() -> None:
    assert book(FIRST, None, FIRST).pool("p") is None
    assert book(FIRST, None, SECOND, Size("one", 3)).names() == []
    again = replace(FIRST, incarnation="two")
    assert pool(FIRST, None, again, FIRST).deployment == again


def test_a_million_records_that_make_no_sense_are_few_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    found = book(FIRST)
    for offset in range(100):
        found.apply(offset, b"p/size", encode(Size("one", 10**9)))
    assert len(caplog.records) == 20


def test_notes_that_cannot_be_read_are_as_if_they_had_not_been_written() -> None:
    """Of a form without topic ids, say: the pool itself is read all the same."""
    whole = encode(Deaths("one", "a", "", (Note(Span("orders", 0, 1, 2, b"t" * 16), 2),)))
    tag, incarnation, deployment, restart, notes = msgpack.unpackb(whole[1:])
    for note in notes:
        note[0].pop()
    found = book(FIRST)
    found.apply(7, b"p/deaths", whole[:1] + msgpack.packb([tag, incarnation, deployment, restart, notes]))
    assert found.pool("p") == pool(FIRST)
    found.apply(8, b"p/deaths", whole)
    record = found.pool("p")
    assert record is not None
    assert record.notes == (Note(Span("orders", 0, 1, 2, b"t" * 16), 2),)
