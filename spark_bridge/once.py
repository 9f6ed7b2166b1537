"""Effectively-once output: the ranges a batch held are written with its data, in one step that cannot happen twice.

`OnceFiles` is a folder of files. Each write is a sub-folder of data and one entry of a log:

    PATH/_ranges/00000000000000000007.json     {"write": "…", "ranges": [[topic, partition, from, until], …]}
    PATH/data/_write=…/part-….parquet

An entry appears whole or not at all, under a number that can be taken only once. So a batch that comes again, after a
crash or because its partitions moved, finds what was written before, and only what is new is written; of two writers
that overlap, the second sees the first's entry and leaves those records out. Data without an entry is not read.

`OnceTable` is such a folder as a table of Spark's catalog: each write is a partition of the table, added once its
entry is there.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_bridge.batch import Batch

log = logging.getLogger(__name__)

Transform = Callable[["DataFrame"], "DataFrame"]
Key = tuple[str, int]

_DIGITS = 20
_WRITE = "_write"


@dataclass(frozen=True, slots=True)
class _Entry:
    write: str
    ranges: tuple[tuple[str, int, int, int], ...]


class OnceFiles:
    """A folder that holds each record of a group's batches once, whatever is repeated.

    The folder must be one file system that the driver and all executors share (a local disk, NFS); object stores
    are not supported: they lack the step that cannot happen twice. `format` is one of Spark's file formats.
    """

    def __init__(self, path: str | os.PathLike[str], format: str = "parquet") -> None:
        self._path = Path(path).absolute()
        if "://" in str(path):
            raise ValueError(f"path={str(path)!r}: OnceFiles needs a folder of a shared file system, not a URL")
        self._format = format
        self._log = self._path / "_ranges"

    def write(self, df: DataFrame, batch: Batch, transform: Transform = lambda new: new) -> int:
        """Write the batch's records that are not there yet, as `transform` makes them; how many offsets they span.

        `df` needs the columns topic, partition and offset, as a batch function gets it; what `transform` returns
        need not have them. It may run again when another writer was first.
        """
        while True:
            number, written = self._state()
            new = _beyond(batch, written)
            if not new:
                return 0
            entry = _Entry(f"{number:0{_DIGITS}}-{uuid.uuid4().hex}", tuple(new))
            target = self._folder(entry)
            transform(df.where(_condition(new))).write.format(self._format).save(str(target))
            if self._enter(number, entry):
                return sum(until - since for _, _, since, until in new)
            log.info("%s: another writer took entry %d; looking again", self._path, number)
            shutil.rmtree(target, ignore_errors=True)

    def read(self, spark: SparkSession) -> DataFrame:
        """All that was written. Raises FileNotFoundError while there is nothing."""
        folders = [str(self._folder(entry)) for entry in self._entries()]
        if not folders:
            raise FileNotFoundError(f"nothing has been written to {self._path} yet")
        return spark.read.format(self._format).load(folders)

    def offsets(self) -> dict[Key, int]:
        """The next offset of each (topic, partition) that has been written."""
        return self._state()[1]

    def _folder(self, entry: _Entry) -> Path:
        return self._path / "data" / f"{_WRITE}={entry.write}"

    def _entries(self) -> list[_Entry]:
        if not self._log.is_dir():
            return []
        found = []
        for file in sorted(self._log.glob("*.json")):
            entry = json.loads(file.read_text())
            found.append(_Entry(entry["write"], tuple((t, p, since, until) for t, p, since, until in entry["ranges"])))
        return found

    def _state(self) -> tuple[int, dict[Key, int]]:
        """(number of the next entry, the next offset of each partition)."""
        entries = self._entries()
        written: dict[Key, int] = {}
        for entry in entries:
            for topic, partition, _, until in entry.ranges:
                written[topic, partition] = max(until, written.get((topic, partition), 0))
        return len(entries), written

    def _enter(self, number: int, entry: _Entry) -> bool:
        """Make the entry visible, whole and flushed; False when its number is taken."""
        self._log.mkdir(parents=True, exist_ok=True)
        draft = self._log / f".{uuid.uuid4().hex}"
        with draft.open("w") as file:
            json.dump({"write": entry.write, "ranges": entry.ranges}, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._log / f"{number:0{_DIGITS}}.json")
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True


class OnceTable(OnceFiles):
    """A table of Spark's catalog over such a folder; made by the first write, with the columns that it has.

    `OnceTable("delays", "/data/delays").write(df, batch)`. Beside those columns, `_write` tells the write of a row.
    """

    def __init__(self, table: str, path: str | os.PathLike[str], format: str = "parquet") -> None:
        super().__init__(path, format)
        self.table = table

    def write(self, df: DataFrame, batch: Batch, transform: Transform = lambda new: new) -> int:
        """As OnceFiles does, and show it in the table."""
        spark = df.sparkSession
        self.repair(spark)  # a crash may have come between an entry and its partition
        written = super().write(df, batch, transform)
        self.repair(spark)
        return written

    def repair(self, spark: SparkSession) -> None:
        """Add what was written and is not in the table yet; make the table if there is none."""
        entries = self._entries()
        if not entries:
            return
        if not spark.catalog.tableExists(self.table):
            self._create(spark, entries[0])
        shown = {row["partition"] for row in spark.sql(f"SHOW PARTITIONS {self.table}").collect()}
        missing = [entry.write for entry in entries if f"{_WRITE}={entry.write}" not in shown]
        if missing:
            partitions = " ".join(f"PARTITION ({_WRITE} = '{write}')" for write in missing)
            spark.sql(f"ALTER TABLE {self.table} ADD IF NOT EXISTS {partitions}")

    def _create(self, spark: SparkSession, entry: _Entry) -> None:
        fields = spark.read.format(self._format).load(str(self._folder(entry))).schema.fields
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.table} ({columns}, {_WRITE} STRING) USING {self._format} "
            f"PARTITIONED BY ({_WRITE}) LOCATION '{self._path / 'data'}'"
        )


def _beyond(batch: Batch, written: Mapping[Key, int]) -> list[tuple[str, int, int, int]]:
    """The part of the batch's ranges that lies after what was written."""
    found = []
    for r in batch.ranges:
        since = max(r.from_offset, written.get((r.topic, r.partition), 0))
        if since < r.until_offset:
            found.append((r.topic, r.partition, since, r.until_offset))
    return found


def _condition(ranges: Iterable[tuple[str, int, int, int]]) -> Column:
    from pyspark.sql import functions as f

    parts: list[Any] = [
        (f.col("topic") == topic) & (f.col("partition") == partition) & f.col("offset").between(since, until - 1)
        for topic, partition, since, until in ranges
    ]
    return reduce(lambda a, b: a | b, parts)
