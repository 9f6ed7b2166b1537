"""`coterie consume`: a topic's records to standard output, as a member of a group or without one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import click

from actors.cli import options, output
from actors.cli.calls import check_topic
from actors.cli.clients import API_TIMEOUT_MS, Clients
from actors.cli.errors import CliError
from actors.cli.lines import Record, for_terminal, separator_bytes, to_json, to_text

if TYPE_CHECKING:
    from actors.client import Consumer
    from actors.runtime.environment import Clock

_POLL_MS = 500  # the longest poll, so that --timeout-ms is noticed in time
_POLL_RECORDS = 500
_TERMINATED = 143  # 128 + SIGTERM


@click.command()
@click.argument("topic")
@options.bootstrap
@click.option("--group", metavar="GROUP", help="Read as a member of this group, and commit what was written.")
@click.option("--from-beginning", is_flag=True, help="Begin at the first record where nothing is committed.")
@click.option("--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this partition.")
@click.option("--offset", metavar="N|earliest|latest", help="Where to begin, without a group.")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="End after this many records.")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="MS", help="End when no record has come for this long.")
@click.option("--key-separator", metavar="TEXT", help="Write keys too, with this between key and value.")
@click.option("--print-headers", is_flag=True, help="Write headers before each record.")
@options.line_format
@options.at_a_clock
@options.with_clients
def consume(
    topic: str,
    bootstrap_server: str,
    group: str | None,
    from_beginning: bool,
    partitions: tuple[int, ...],
    offset: str | None,
    max_messages: int | None,
    timeout_ms: int | None,
    key_separator: str | None,
    print_headers: bool,
    line_format: str,
    clock: Clock,
    clients: Clients,
) -> None:
    """Write the records of TOPIC to standard output, from now on or --from-beginning.

    With --group the partitions are shared with the group's other members, and what was written is committed: a
    record may come twice after a crash, but none is lost. Ends with Ctrl-C, --max-messages or --timeout-ms.
    """
    if group and (partitions or offset):
        raise click.UsageError("--partition and --offset cannot be given with --group, which decides both")
    if offset and from_beginning:
        raise click.UsageError("--offset and --from-beginning contradict each other")
    separator = separator_bytes(key_separator)

    def line(record: Record) -> bytes:
        if line_format == "json":
            return to_json(record)
        text = to_text(record, separator, headers=print_headers)
        return for_terminal(text) if sys.stdout.isatty() else text

    check_topic(bootstrap_server, API_TIMEOUT_MS, topic)
    with _terminable(), closing(clients.consumer(bootstrap_server, group, from_beginning)) as consumer:
        there = consumer.partitions_for_topic(topic)
        if not there:
            raise CliError(f"there is no topic {topic!r}")
        if group:
            consumer.subscribe([topic])
        else:
            begin = offset or ("earliest" if from_beginning else "latest")
            _assign(consumer, topic, there, partitions, begin)
        stdout = sys.stdout.buffer
        count = copy(
            consumer,
            stdout,
            line,
            clock.monotonic,
            commits=bool(group),
            limit=max_messages,
            silence_ms=timeout_ms,
        )
    output.note(output.plural(count, "record"))


def copy(
    consumer: Consumer,
    stdout: BinaryIO,
    line: Callable[[Record], bytes],
    monotonic: Callable[[], float],
    *,
    commits: bool,
    limit: int | None,
    silence_ms: int | None,
) -> int:
    """Write records; commit each batch, if `commits`, once it is written. Returns how many were written.

    Ends after `limit` records, or when none has come for `silence_ms`; None: never for this reason.
    """
    count = 0
    last = monotonic()
    while limit is None or count < limit:
        most = _POLL_RECORDS if limit is None else min(_POLL_RECORDS, limit - count)
        polled = consumer.poll(timeout_ms=_poll_ms(silence_ms), max_records=most)
        lines = [line(record) for records in polled.values() for record in records]
        if lines:
            stdout.write(b"".join(lines))
            stdout.flush()
            count += len(lines)
            last = monotonic()
            if commits:
                _commit(consumer)
        elif silence_ms is not None and (monotonic() - last) * 1000 >= silence_ms:
            break
    return count


def _poll_ms(silence_ms: int | None) -> int:
    return _POLL_MS if silence_ms is None else max(1, min(_POLL_MS, silence_ms))


def _commit(consumer: Consumer) -> None:
    from actors.client.errors import CommitFailedError, RebalanceInProgressError

    try:
        consumer.commit()
    except (CommitFailedError, RebalanceInProgressError) as error:
        output.note(f"warning: not committed, so these records may come again: {error}")


def _assign(consumer: Consumer, topic: str, there: set[int], wanted: Sequence[int], offset: str) -> None:
    from actors.client import TopicPartition

    missing = sorted(set(wanted) - set(there))
    if missing:
        raise CliError(f"topic {topic!r} has partitions 0 to {max(there)}, not {missing[0]}")
    partitions = [TopicPartition(topic, number) for number in sorted(wanted or there)]
    consumer.assign(partitions)
    if offset == "earliest":
        consumer.seek_to_beginning(*partitions)
    elif offset == "latest":
        consumer.seek_to_end(*partitions)
    elif offset.isascii() and offset.isdigit():
        for partition in partitions:
            consumer.seek(partition, int(offset))
    else:
        raise click.BadParameter(f"{offset!r} is not a number, earliest or latest", param_hint="--offset")


@contextmanager
def _terminable() -> Iterator[None]:
    """Within the block SIGTERM ends the command as Ctrl-C does, so that the member leaves its group.

    Killed outright, it would hold its partitions until the session timeout.
    """

    def end(*_: object) -> NoReturn:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
