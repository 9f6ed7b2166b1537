"""Every message of every link: what is sent arrives, and what does not fit is refused with the field's name."""

from __future__ import annotations

import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.links import control, member, relay, replication
from actors.links.codec import Codec, LinkError, NotSpokenError, UnknownKindError, since
from actors.links.group_status import WITHOUT_TAG
from placement.metadata import (
    BrokerInfo,
    ClusterMetadata,
    PartitionInfo,
    TopicInfo,
)
from placement.records import BrokerConfigsRecord, BrokerRecord, TopicRecord
from tests.support.examples import examples

CODECS: dict[str, Codec[Any]] = {
    "control": control.CODEC,
    "replication": replication.CODEC,
    "relay": relay.PAYLOADS,
    "member": member.CODEC,
}
MESSAGES = [(link, cls) for link, codec in CODECS.items() for cls in codec.classes.values()]
NAMES = [cls.__name__ for _, cls in MESSAGES]


@st.composite
def metadata(draw: st.DrawFn) -> ClusterMetadata:
    made = ClusterMetadata(draw(st.text()), draw(_of(int)))
    for info in draw(st.lists(_of(BrokerInfo), max_size=3)):
        made.apply(BrokerRecord(info))
    topics = st.tuples(st.text(), st.binary(min_size=16, max_size=16))
    for name, topic_id in draw(st.lists(topics, unique_by=(lambda t: t[0], lambda t: t[1]), max_size=3)):
        partitions = draw(st.lists(_of(PartitionInfo), max_size=3))
        configs = draw(st.dictionaries(st.text(), st.text(), max_size=2))
        made.apply(TopicRecord(TopicInfo(name, topic_id, tuple(partitions), configs)))
    made.apply(BrokerConfigsRecord("0", draw(st.dictionaries(st.text(), st.text(), max_size=2))))
    return made


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(1 << 63), (1 << 64) - 1),
    float: st.floats(allow_nan=False),
    str: st.text(),
    bytes: st.binary(),
    bool: st.booleans(),
    types.NoneType: st.none(),
    ClusterMetadata: metadata(),
}


@cache
def _of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type. The same each time: a message may have another of its kind in it."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in SCALARS:
        return SCALARS[origin]
    if origin in (Union, types.UnionType):
        return st.one_of(*map(_of, arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(_of, arguments))
    if origin is Mapping:
        return st.dictionaries(*map(_of, arguments), max_size=2)
    if issubclass(origin, IntEnum):
        return st.sampled_from(origin)
    if is_dataclass(origin):
        hints = get_type_hints(origin)
        return st.builds(
            origin, **{field.name: st.deferred(lambda h=hints[field.name]: _of(h)) for field in fields(origin)}
        )
    known = [*(cls for _, cls in MESSAGES), *WITHOUT_TAG.values()]
    return st.one_of(*[_of(cls) for cls in known if issubclass(cls, origin)])


@pytest.mark.parametrize(("link", "cls"), MESSAGES, ids=NAMES)
def test_a_message_arrives_as_it_was_sent(link: str, cls: type) -> None:
    codec = CODECS[link]

    @examples(30)  # of each of more than a hundred classes, which one codec reads and writes
    @given(_of(cls))
    def arrives(message: Any) -> None:
        found = codec.decode(codec.encode(message))
        assert found == message
        assert type(found) is cls
        assert _types(found) == _types(message)

    arrives()


def _types(value: Any) -> Any:
    """The types of all that a message holds: 1 == 1.0 == True."""
    if is_dataclass(value):
        return type(value), [_types(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple):
        return tuple, [_types(each) for each in value]
    return type(value)


@pytest.mark.parametrize(("link", "cls"), MESSAGES, ids=NAMES)
def test_a_message_with_a_field_of_another_type_or_one_too_few_is_refused_by_its_name(link: str, cls: type) -> None:
    codec = CODECS[link]
    required = [each for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]

    @examples(10)
    @given(_of(cls))
    def refused(message: Any) -> None:
        tag, *values = msgpack.unpackb(codec.encode(message))
        if required:
            short = values[: len(required) - 1]
            with pytest.raises(LinkError, match=rf"^{link} link: {cls.__name__} is an array of {len(values)}, not "):
                codec.decode(msgpack.packb([tag, *short]))
        for wrong, field in enumerate(fields(cls)):
            other = [*values[:wrong], msgpack.ExtType(5, b"nothing of ours"), *values[wrong + 1 :]]
            with pytest.raises(LinkError, match=rf"^{link} link: {cls.__name__}\.{field.name}: "):
                codec.decode(msgpack.packb([tag, *other]))

    refused()


# --- other builds ---


def _grown(value: Any, tags: Mapping[type, int]) -> Any:
    """A message as a newer build sends it: each dataclass in it has two fields more."""
    if isinstance(value, ClusterMetadata):
        return value.to_wire()
    if is_dataclass(value):
        row = [_grown(getattr(value, each.name), tags) for each in fields(value)]
        tag = [tags[type(value)]] if type(value) in tags else []
        return [*tag, *row, "of a newer build", 7]
    if isinstance(value, tuple):
        return [_grown(each, tags) for each in value]
    if isinstance(value, Mapping):
        return {_grown(key, tags): _grown(each, tags) for key, each in value.items()}
    return value


@pytest.mark.conformance("N-E-02")
@pytest.mark.parametrize(("link", "cls"), MESSAGES, ids=NAMES)
def test_fields_of_a_newer_build_are_ignored_in_whatever_a_message_holds(link: str, cls: type) -> None:
    codec = CODECS[link]
    tags = {known: tag for tag, known in codec.classes.items()}

    @examples(10)
    @given(_of(cls))
    def arrives(message: Any) -> None:
        assert codec.decode(msgpack.packb(_grown(message, tags))) == message

    arrives()


@pytest.mark.parametrize(("link", "cls"), MESSAGES, ids=NAMES)
def test_fields_that_an_older_build_does_not_send_have_their_defaults(link: str, cls: type) -> None:
    codec = CODECS[link]
    late = [each for each in fields(cls) if each.default is not MISSING or each.default_factory is not MISSING]

    @examples(10)
    @given(_of(cls))
    def arrives(message: Any) -> None:
        tag, *values = msgpack.unpackb(codec.encode(message))
        for count in range(len(late) + 1):
            kept = {each.name: getattr(message, each.name) for each in fields(cls)[: len(values) - count]}
            assert codec.decode(msgpack.packb([tag, *values[: len(values) - count]])) == cls(**kept)

    arrives()


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    weight: int = since(2, 5)


@dataclass(frozen=True, slots=True)
class Told:
    rows: tuple[Row, ...]
    count: int = 0
    note: str = since(1, "none")
    more: Row = since(2, Row("more"))


class Question:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Old(Question):
    number: int


@dataclass(frozen=True, slots=True)
class Newer(Question):
    number: int


@dataclass(frozen=True, slots=True)
class Put:
    number: int
    question: Question


LATER: Codec[Any] = Codec("later", {1: Told, 2: Put, 3: Old, 4: Newer}, since={Newer: 2})
TOLD = Told((Row("a", 1), Row("b", 2)), 3, "four", Row("five", 6))


@pytest.mark.parametrize(
    ("version", "sent"),
    [
        (0, [1, [["a"], ["b"]], 3]),
        (1, [1, [["a"], ["b"]], 3, "four"]),
        (2, [1, [["a", 1], ["b", 2]], 3, "four", ["five", 6]]),
        (3, [1, [["a", 1], ["b", 2]], 3, "four", ["five", 6]]),
    ],
)
def test_fields_that_came_later_are_not_sent_to_ends_that_demand_exact_lengths(version: int, sent: Any) -> None:
    assert msgpack.unpackb(LATER.encode(TOLD, version)) == sent


def test_what_an_older_version_does_not_say_arrives_as_its_default() -> None:
    assert LATER.decode(LATER.encode(TOLD, 0)) == Told((Row("a"), Row("b")), 3)
    assert LATER.decode(LATER.encode(TOLD, 1)) == Told((Row("a"), Row("b")), 3, "four")
    assert LATER.decode(LATER.encode(TOLD)) == TOLD


@pytest.mark.parametrize("message", [Newer(1), Put(1, Newer(1))])
def test_a_kind_that_came_later_is_not_sent_to_ends_that_do_not_know_it(message: Any) -> None:
    with pytest.raises(NotSpokenError, match="Newer is not in version 1 of the later link"):
        LATER.encode(message, 1)
    assert LATER.decode(LATER.encode(message, 2)) == message
    assert LATER.decode(LATER.encode(Put(1, Old(2)), 0)) == Put(1, Old(2))


def test_records_that_have_a_format_of_their_own_have_exact_lengths() -> None:
    exact: Codec[Any] = Codec("exact", {1: Told}, exact=True)
    tag, *values = msgpack.unpackb(exact.encode(TOLD))
    assert exact.decode(msgpack.packb([tag, *values])) == TOLD
    for other in (values[:-1], [*values, 1]):
        with pytest.raises(LinkError, match="Told is an array of 4, not "):
            exact.decode(msgpack.packb([tag, *other]))


def test_a_field_that_came_later_cannot_stand_before_older_ones() -> None:
    @dataclass(frozen=True, slots=True)
    class Wrong:
        new: int = since(1, 0)
        old: int = 0

    with pytest.raises(TypeError, match="Wrong: fields that came later stand at its end"):
        Codec("wrong", {1: Wrong})


@pytest.mark.parametrize(
    ("values", "outer", "raw", "kind"),
    [
        ([99], None, [], 99),
        ([99, 1, "x"], None, [1, "x"], 99),
        ([10, 7, [131, 1], ""], control.Call, [7, [131, 1], ""], 131),
        ([10, 7, [162, 1, [131, 2]], ""], control.Call, [7, [162, 1, [131, 2]], ""], 131),
        ([11, 8, [231]], control.Answer, [8, [231]], 231),
    ],
)
def test_a_kind_that_is_not_known_is_told_from_garbage(values: Any, outer: Any, raw: Any, kind: int) -> None:
    with pytest.raises(UnknownKindError, match=f"^control link: .*unknown tag {kind}$") as error:
        control.CODEC.decode(msgpack.packb(values))
    assert (error.value.kind, error.value.outer, error.value.values[:1]) == (kind, outer, raw[:1])


# --- whatever else comes ---


@pytest.mark.parametrize("link", CODECS)
@given(body=st.binary(max_size=60))
def test_garbage_is_a_message_or_a_link_error(link: str, body: bytes) -> None:
    with suppress(LinkError):
        CODECS[link].decode(body)


WRONG = [
    ("control", [99], "unknown tag 99"),
    ("control", [True], "unknown tag True"),
    ("control", [], "a message is an array with a tag, not []"),
    ("control", {"type": "hello"}, "a message is an array with a tag, not {'type': 'hello'}"),
    ("control", [5, True, [0, 0, 0.0, 0], False], "Heartbeat.sent: True is no float"),
    (
        "control",
        [5, 1.0, [0, 0, "long", 0, [], [], []], False],
        "Heartbeat.load: Load.longest_turn_ms: 'long' is no float",
    ),
    ("control", [10, 1, [209, 0, 1], ""], "Call.operation: ProducerIds is no Operation"),
    ("control", [10, 1, [99], ""], "Call.operation: unknown tag 99"),
    ("control", [7, ["c", 0, 0, [], [["t"]], {}, 0]], "Image.metadata: "),
    ("replication", [4, [[b"t", 0, [1, 2, 9, 3, 4, [], 5]]]], "Acks.acks: tuple.2: Ack.outcome: 9 is no Outcome"),
    ("replication", [3, [[b"t", 0, [1, 2]]]], "Pushes.pushes: tuple.2: Push is an array of 11, not [1, 2]"),
    (
        "replication",
        [4, [[b"t", 0, [1, 2, 0, 3, 4, [[5]], 6]]]],
        "Acks.acks: tuple.2: Ack.epochs: tuple is an array of 2",
    ),
    ("replication", [6, 1.0, [1, 2, 3], True], "Pong.view: tuple is an array of 2, not [1, 2, 3]"),
    ("relay", [14, [["t", b"i", "many"]]], "KnownTopics.topics: tuple.2: 'many' is no int"),
]


@pytest.mark.parametrize(("link", "values", "text"), WRONG)
def test_what_is_wrong_with_a_message_is_said(link: str, values: Any, text: str) -> None:
    with pytest.raises(LinkError) as error:
        CODECS[link].decode(msgpack.packb(values))
    assert str(error.value).startswith(f"{link} link: {text}")


def test_another_message_than_the_one_that_has_to_come_is_refused() -> None:
    body = relay.PAYLOADS.encode(relay.Greeting(1, "v"))
    with pytest.raises(LinkError, match="relay link: Greeting is no Figures"):
        relay.PAYLOADS.read(relay.Figures, body)


def test_what_is_no_message_of_a_link_cannot_be_sent_over_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Stranger:
        number: int

    stranger: Any = Stranger(1)
    with pytest.raises(TypeError, match="Stranger is no message of the control link"):
        control.CODEC.encode(stranger)
    within: Any = control.Heartbeat(1.0, stranger)
    with pytest.raises(TypeError, match="Stranger is in no message of the control link"):
        control.CODEC.encode(within)


@pytest.mark.parametrize(("link", "cls"), MESSAGES, ids=NAMES)
def test_messages_are_frozen_and_have_slots(link: str, cls: Any) -> None:
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)
    assert Any not in get_type_hints(cls).values()
