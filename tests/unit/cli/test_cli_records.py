"""`coterie produce` and `consume` with clients that stand in for real ones."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli import consume as consume_module
from actors.cli import produce as produce_module
from actors.cli.clients import Clients
from actors.cli.consume import copy
from actors.cli.lines import from_text, to_text
from actors.cli.main import cli
from actors.cli.produce import send_all
from actors.client import ConsumerRecord, TopicPartition
from actors.client.config import producer_config
from actors.client.errors import CommitFailedError, MessageTooLargeError

T0 = TopicPartition("t", 0)


class Fakes(Clients):
    """Clients that the test has made."""

    made: Any = None

    def producer(self, *_: Any) -> Any:
        return self.made

    def consumer(self, *_: Any) -> Any:
        return self.made


CLIENTS = Fakes()


def record(offset: int) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, offset, 0, 0, None, b"v%d" % offset, [], -1, 2)


class FakeConsumer:
    """Gives the batches it was made with, then nothing; remembers what it was asked."""

    def __init__(self, *batches: int) -> None:
        numbers = itertools.count()
        self._batches = [[record(next(numbers)) for _ in range(size)] for size in batches]
        self.log: list[str] = []
        self.commit_error: Exception | None = None
        self.positions: dict[TopicPartition, int | str] = {}

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        if not self._batches:
            return {}
        batch = self._batches.pop(0)
        given, rest = batch[:max_records], batch[max_records:]
        if rest:
            self._batches.insert(0, rest)
        self.log.append(f"poll {len(given)}")
        return {T0: given}

    def commit(self) -> None:
        self.log.append("commit")
        if self.commit_error:
            raise self.commit_error

    def subscribe(self, topics: list[str]) -> None:
        self.log.append(f"subscribe {topics}")

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1} if topic == "t" else None

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.positions = dict.fromkeys(partitions, "?")

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self.positions.update(dict.fromkeys(partitions, "earliest"))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self.positions.update(dict.fromkeys(partitions, "latest"))

    def close(self) -> None:
        self.log.append("close")


class Outcome:
    def __init__(self, error: Exception | None) -> None:
        self.is_done = True
        self._error = error

    def get(self) -> None:
        if self._error:
            raise self._error


class FakeProducer:
    """Remembers what it was given; fails the record with the value `bad`."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.log: list[str] = []

    def send(self, topic: str, **record: Any) -> Outcome:
        self.sent.append(record)
        return Outcome(MessageTooLargeError("the record is too large") if record["value"] == b"bad" else None)

    def flush(self) -> None:
        self.log.append("flush")

    def close(self) -> None:
        self.log.append("close")


def line(each: Any) -> bytes:
    return to_text(each, None)


def still() -> float:
    """A clock that stands."""
    return 0.0


# --- consume ---


def test_each_batch_is_committed_once_it_is_written() -> None:
    consumer, out = FakeConsumer(2, 1), io.BytesIO()
    assert copy(consumer, out, line, still, commits=True, limit=3, silence_ms=None) == 3  # type: ignore[arg-type]
    assert consumer.log == ["poll 2", "commit", "poll 1", "commit"]
    assert out.getvalue() == b"v0\nv1\nv2\n"


def test_no_record_beyond_the_limit_is_taken() -> None:
    consumer = FakeConsumer(5)
    assert copy(consumer, io.BytesIO(), line, still, commits=True, limit=3, silence_ms=None) == 3  # type: ignore[arg-type]
    assert consumer.log == ["poll 3", "commit"]


def test_silence_ends_it() -> None:
    now, consumer = itertools.count(step=0.25), FakeConsumer(2, *[0] * 9)
    assert copy(consumer, io.BytesIO(), line, lambda: next(now), commits=False, limit=None, silence_ms=500) == 2  # type: ignore[arg-type]
    assert consumer.log == ["poll 2", "poll 0", "poll 0"], "silent for 250 ms, and then for 500"


def test_failed_write_is_not_committed() -> None:
    class Broken(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    consumer = FakeConsumer(1)
    with pytest.raises(BrokenPipeError):
        copy(consumer, Broken(), line, still, commits=True, limit=1, silence_ms=None)  # type: ignore[arg-type]
    assert consumer.log == ["poll 1"]


def test_commit_lost_to_a_rebalance_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    consumer = FakeConsumer(1)
    consumer.commit_error = CommitFailedError("moved")
    assert copy(consumer, io.BytesIO(), line, still, commits=True, limit=1, silence_ms=None) == 1  # type: ignore[arg-type]
    assert capsys.readouterr().err == "warning: not committed, so these records may come again: moved\n"


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeConsumer]:
    fake = FakeConsumer(1)
    monkeypatch.setattr(CLIENTS, "made", fake)
    monkeypatch.setattr(consume_module, "check_topic", lambda *_, **__: None)
    yield fake
    assert fake.log[-1] == "close"


def consume(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["consume", *arguments], obj=CLIENTS)


@pytest.mark.parametrize(
    ("arguments", "positions"),
    [
        ([], {T0: "latest", TopicPartition("t", 1): "latest"}),
        (["--from-beginning"], {T0: "earliest", TopicPartition("t", 1): "earliest"}),
        (["--partition", "0", "--offset", "7"], {T0: 7}),
        (["--partition", "0", "--offset", "earliest"], {T0: "earliest"}),
    ],
)
def test_it_begins_where_it_was_told(
    consumer: FakeConsumer, arguments: list[str], positions: dict[TopicPartition, int | str]
) -> None:
    result = consume("t", "--max-messages", "1", *arguments)
    assert (result.stdout, result.stderr) == ("v0\n", "1 record\n")
    assert consumer.positions == positions
    assert "commit" not in consumer.log


def test_group_subscribes_and_commits(consumer: FakeConsumer) -> None:
    assert consume("t", "--group", "g", "--max-messages", "1").exit_code == 0
    assert consumer.log == ["subscribe ['t']", "poll 1", "commit", "close"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing"], 1, "there is no topic 'nothing'"),
        (["t", "--partition", "5"], 1, "topic 't' has partitions 0 to 1, not 5"),
        (["t", "--offset", "middle"], 2, "'middle' is not a number, earliest or latest"),
    ],
)
def test_what_cannot_be_read_is_an_error(consumer: FakeConsumer, arguments: list[str], code: int, words: str) -> None:
    result = consume(*arguments)
    assert (result.exit_code, words in result.stderr) == (code, True)


@pytest.mark.parametrize(
    "arguments", [["--group", "g", "--partition", "0"], ["--offset", "1", "--from-beginning"], ["--max-messages", "0"]]
)
def test_contradicting_options_are_wrong_usage(arguments: list[str]) -> None:
    assert consume("t", *arguments).exit_code == 2


# --- produce ---


def test_last_line_needs_no_end() -> None:
    producer = FakeProducer()
    lines = [b"a\n", b"\n", b"b"]
    count = send_all(producer, "t", lines, lambda text: from_text(text, None, []), None, lambda: None)  # type: ignore[arg-type]
    assert (count, [each["value"] for each in producer.sent]) == (3, [b"a", b"", b"b"])
    assert producer.log == ["flush"]


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    fake = FakeProducer()
    monkeypatch.setattr(CLIENTS, "made", fake)
    monkeypatch.setattr(produce_module, "check_topic", lambda *_, **__: None)
    return fake


def produce(*arguments: str, stdin: bytes) -> Result:
    return CliRunner().invoke(cli, ["produce", "t", *arguments], input=stdin, obj=CLIENTS)


def test_record_that_is_not_delivered_fails_the_command(producer: FakeProducer) -> None:
    result = produce(stdin=b"good\nbad\ngood\n")
    assert (result.exit_code, result.stderr) == (1, "coterie: the record is too large\n")
    assert producer.log == ["close"]


def test_constant_key_partition_and_headers(producer: FakeProducer) -> None:
    assert produce("--key", "k", "--partition", "3", "-H", "a=1", stdin=b"v\n").stderr == "1 record\n"
    assert producer.sent == [
        {"value": b"v", "key": b"k", "headers": [("a", b"1")], "partition": 3, "timestamp_ms": None}
    ]


def test_json_lines_may_name_partition_and_time(producer: FakeProducer) -> None:
    produce("--format", "json", stdin=b'{"value": "v", "partition": 2, "timestamp": 9}\n')
    assert (producer.sent[0]["partition"], producer.sent[0]["timestamp_ms"]) == (2, 9)


@pytest.mark.parametrize("arguments", [["--key", "k", "--key-separator", ":"], ["--format", "json", "--key", "k"]])
def test_two_sources_of_keys_are_wrong_usage(producer: FakeProducer, arguments: list[str]) -> None:
    assert produce(*arguments, stdin=b"v\n").exit_code == 2
    assert producer.sent == []


@pytest.mark.parametrize("timeout_ms", [1, 5_000, 30_000])
def test_produce_gives_up_when_its_timeout_says(monkeypatch: pytest.MonkeyPatch, timeout_ms: int) -> None:
    """It went on for two minutes, whatever --timeout was."""
    given: dict[str, Any] = {}
    monkeypatch.setattr("actors.client.Producer", lambda **settings: given.update(settings))
    Clients().producer("127.0.0.1:1", timeout_ms, "all", "none")
    config = producer_config(given)
    assert config.delivery_timeout_ms == config.max_block_ms == timeout_ms
