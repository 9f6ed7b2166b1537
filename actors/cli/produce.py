"""`coterie produce`: lines of standard input to a topic."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from actors.cli import options, output
from actors.cli.calls import check_topic
from actors.cli.clients import Clients
from actors.cli.lines import ToSend, from_json, from_text, parse_headers, separator_bytes

if TYPE_CHECKING:
    from actors.client import Producer

_UNFINISHED = 100_000  # most records whose outcome is not known yet; buffer_memory bounds their bytes


@click.command()
@click.argument("topic")
@options.bootstrap
@options.timeout
@click.option("--key-separator", metavar="TEXT", help="What stands between key and value in each line.")
@click.option("--key", metavar="TEXT", help="The key of every record.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record.")
@click.option("--partition", type=click.IntRange(0), help="Send everything to this partition.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Which replicas must have a record before it counts as sent: all in sync, the leader (1), none (0).",
)
@click.option(
    "--compression-type",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option("--create", is_flag=True, help="Create the topic, as the brokers' settings say, if there is none.")
@options.line_format
@options.with_clients
def produce(
    topic: str,
    bootstrap_server: str,
    timeout_ms: int,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    acks: str,
    compression_type: str,
    create: bool,
    line_format: str,
    clients: Clients,
) -> None:
    """Write each line of standard input to TOPIC as one record."""
    if line_format == "json" and (key_separator or key):
        raise click.UsageError("with --format json the lines have the keys: leave out --key and --key-separator")
    if key is not None and key_separator:
        raise click.UsageError("--key and --key-separator contradict each other")
    fixed = parse_headers(headers)
    separator = separator_bytes(key_separator)
    key_bytes = None if key is None else key.encode()

    def record(line: bytes) -> ToSend:
        if line_format == "json":
            return from_json(line, fixed)
        found = from_text(line, separator, fixed)
        return found if key_bytes is None else ToSend(key_bytes, found.value, found.headers)

    check_topic(bootstrap_server, timeout_ms, topic, create=create)
    stdin = sys.stdin.buffer
    with closing(clients.producer(bootstrap_server, timeout_ms, acks, compression_type)) as producer:
        # Not where lines are typed: the bar would stand between them.
        with output.progress("producing", shown=not stdin.isatty()) as bar:
            count = send_all(producer, topic, stdin, record, partition, bar.advance)
    output.note(output.plural(count, "record"))


def send_all(
    producer: Producer,
    topic: str,
    lines: Iterable[bytes],
    record: Callable[[bytes], ToSend],
    partition: int | None,
    advance: Callable[[], Any],
) -> int:
    """Send every line as a record and wait for all outcomes. Returns how many; raises the first failure."""
    unfinished: deque[Any] = deque()
    count = 0
    for line in lines:
        each = record(line.removesuffix(b"\n"))
        where = each.partition if partition is None else partition
        unfinished.append(
            producer.send(
                topic,
                value=each.value,
                key=each.key,
                headers=each.headers,
                partition=where,
                timestamp_ms=each.timestamp_ms,
            )
        )
        count += 1
        advance()
        while unfinished and (unfinished[0].is_done or len(unfinished) > _UNFINISHED):
            unfinished.popleft().get()
    producer.flush()
    for future in unfinished:
        future.get()
    return count
