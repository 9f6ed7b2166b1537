"""`coterie topics delete-records`: what kafka-delete-records does."""

from __future__ import annotations

from typing import Final

import click

from actors import CoterieError
from actors.cli import calls, options, output

COLUMNS: Final = ("topic", "partition", "low_watermark", "status")


@click.command("delete-records")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...")
@click.option(
    "--before-offset",
    type=click.IntRange(-1),
    required=True,
    metavar="N",
    help="Delete the records below this offset; -1: all that there are now.",
)
@options.admin_options
def delete_records(
    topics: tuple[str, ...], before_offset: int, bootstrap_server: str, timeout_ms: int, output_format: str
) -> int:
    """Delete the oldest records of partitions, or all of them.

    Without partition numbers, every partition of the topic is meant. The low watermark is the first offset that is
    left. Deleted records do not come back. Of records that are damaged in all replicas, the broker's log says up to
    which offset; this is the way past them for all groups, and `coterie groups reset-offsets` for one.
    """
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        wanted = calls.logs_of_all(admin, calls.partitions(admin, topics))
        outcomes = admin.delete_records(dict.fromkeys(wanted, before_offset), raise_errors=False)
    failed = {tp: str(outcome) for tp, outcome in outcomes.items() if isinstance(outcome, CoterieError)}
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "low_watermark": None if tp in failed else outcome,
            "status": failed.get(tp, "Successful"),
        }
        for tp, outcome in sorted(outcomes.items(), key=lambda pair: pair[0])
    ]
    output.emit(rows, COLUMNS, output_format)
    return 1 if failed else 0
