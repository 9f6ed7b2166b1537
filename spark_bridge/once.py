"""Effectively-once output: the ranges of a batch are recorded with its data, in one step that cannot happen twice.

`OnceFiles` is a folder of files. Each write is a sub-folder of data and one entry of a log:

    PATH/_ranges/00000000000000000007.json     {"write": "…", "ranges": [[topic, partition, from, until], …],
                                                "ids": {topic: "…"}}
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
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.log.files import REAL_WRITER
from actors.runtime.environment import REAL, Chance, new_uuid
from spark_bridge.executors import check_session
from spark_bridge.written import Key, Range, Written, ids_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_bridge.batch import Batch

log = logging.getLogger(__name__)

Transform = Callable[["DataFrame"], "DataFrame"]

_DIGITS = 20
_WRITE = "_write"


@dataclass(frozen=True, slots=True)
class _Entry:
    number: int
    write: str
    ranges: tuple[Range, ...]
    ids: Mapping[str, bytes] = field(default_factory=dict)


class OnceFiles:
    """A folder that holds each record of a group's batches once, whatever is repeated.

    The folder must be one file system that the driver and all executors share (a local disk, NFS); object stores
    are not supported: they lack the step that cannot happen twice. `format` is one of Spark's file formats.
    """

    def __init__(self, path: str | os.PathLike[str], format: str = "parquet", *, chance: Chance = REAL.chance) -> None:
        self._path = Path(path).absolute()
        self._chance = chance
        if "://" in str(path):
            raise ValueError(f"path={str(path)!r}: OnceFiles needs a folder of a shared file system, not a URL")
        self._format = format
        self._log = self._path / "_ranges"
        self._lock = threading.Lock()
        self._last: _Entry | None = None  # up to this one the log has been read
        self._written = Written()  # and says that these offsets are there

    def write(self, df: DataFrame, batch: Batch, transform: Transform = lambda new: new) -> int:
        """Write those of the batch's records that are not there yet. Returns how many offsets they span.

        `df` needs the columns topic, partition and offset, which the argument of a batch function has. `transform`
        makes what is written of it, and need not keep them; it may be called again if another writer was first.
        """
        tried = -1
        while True:
            number, written = self._known()
            if number == tried:
                raise RuntimeError(f"{self._file(number)} exists, but cannot be read")
            tried = number
            new = written.beyond(batch)
            if not new:
                return 0
            entry = _Entry(number, f"{number:0{_DIGITS}}-{new_uuid(self._chance).hex}", tuple(new), ids_of(batch))
            target = self._folder(entry)
            transform(df.where(_condition(new))).write.format(self._format).save(str(target))
            _flush(target)
            if self._enter(entry):
                return sum(until - since for _, _, since, until in new)
            log.info("%s: another writer took entry %d; looking again", self._path, number)
            shutil.rmtree(target, ignore_errors=True)

    def read(self, spark: SparkSession) -> DataFrame:
        """A DataFrame of all that was written. Raises FileNotFoundError if nothing was, and SessionError."""
        check_session(spark)
        folders = [str(self._folder(entry)) for entry in self._entries()]
        if not folders:
            raise FileNotFoundError(f"nothing has been written to {self._path} yet")
        return spark.read.format(self._format).load(folders)

    def offsets(self) -> dict[Key, int]:
        """The next offset of each (topic, partition) that has been written."""
        return self._known()[1].ends()

    def _known(self) -> tuple[int, Written]:
        """The number of entries, and the offsets that they say are written. Reads only entries that are new."""
        with self._lock:
            last = self._last
            if last is not None and self._entry(last.number) != last:  # the folder was emptied meanwhile
                self._last = last = None
                self._written = Written()
            for entry in self._entries(0 if last is None else last.number + 1):
                for each in entry.ranges:
                    self._written.add(each, entry.ids.get(each[0], b""))
                self._last = entry
            return 0 if self._last is None else self._last.number + 1, self._written.copy()

    def _entries(self, first: int = 0) -> list[_Entry]:
        """The entries from number `first` on. Raises RuntimeError if one is missing among all of them."""
        # Looked for before any is read: those up to it are there by then.
        newest = max((int(file.stem) for file in self._log.glob("*.json")), default=-1) if first == 0 else -1
        found: list[_Entry] = []
        while (entry := self._entry(first + len(found))) is not None:
            found.append(entry)
        if len(found) <= newest:
            raise RuntimeError(f"{self._file(len(found))} is missing, but a later entry exists")
        return found

    def _entry(self, number: int) -> _Entry | None:
        try:
            said = json.loads(self._file(number).read_text())
        except FileNotFoundError:
            return None
        ranges = tuple((t, p, since, until) for t, p, since, until in said["ranges"])
        ids = {topic: bytes.fromhex(topic_id) for topic, topic_id in said.get("ids", {}).items()}
        return _Entry(number, said["write"], ranges, ids)

    def _file(self, number: int) -> Path:
        return self._log / f"{number:0{_DIGITS}}.json"

    def _folder(self, entry: _Entry) -> Path:
        return self._path / "data" / f"{_WRITE}={entry.write}"

    def _enter(self, entry: _Entry) -> bool:
        """Make the entry visible, whole and flushed; False when its number is taken."""
        self._log.mkdir(parents=True, exist_ok=True)
        draft = self._log / f".{new_uuid(self._chance).hex}"
        with draft.open("w") as file:
            ids = {topic: topic_id.hex() for topic, topic_id in entry.ids.items()}
            json.dump({"write": entry.write, "ranges": entry.ranges, "ids": ids}, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._file(entry.number))
        except FileExistsError:
            # Over NFS it may be our own entry: the request may have been sent twice (link(2)).
            if not os.path.samefile(draft, self._file(entry.number)):
                return False
        finally:
            draft.unlink()
        REAL_WRITER.fsync_directory(self._path)
        REAL_WRITER.fsync_directory(self._log)
        return True


class OnceTable(OnceFiles):
    """A table of Spark's catalog over such a folder; made by the first write, with the columns that it has.

    `OnceTable("delays", "/data/delays").write(df, batch)`. Beside those columns, `_write` tells the write of a row.
    """

    def __init__(self, table: str, path: str | os.PathLike[str], format: str = "parquet") -> None:
        super().__init__(path, format)
        self.table = table
        self._shown = 0  # so many entries are partitions of the table

    def write(self, df: DataFrame, batch: Batch, transform: Transform = lambda new: new) -> int:
        """Write as OnceFiles does, and add the write to the table."""
        spark = df.sparkSession
        self._show(spark)  # a crash may have come between an entry and its partition
        written = super().write(df, batch, transform)
        self._show(spark)
        return written

    def repair(self, spark: SparkSession) -> None:
        """Add to the table what was written and is not in it yet. Makes the table if there is none.

        Raises SessionError if the session has ended.
        """
        check_session(spark)
        self._shown = 0
        self._show(spark)

    def _show(self, spark: SparkSession) -> None:
        exists = spark.catalog.tableExists(self.table)
        if not exists:
            self._shown = 0
        entries = self._entries(self._shown)
        if not entries:
            return
        shown: set[str] = set()
        if not exists:
            self._create(spark, entries[0])
        elif self._shown == 0:
            shown = {row["partition"] for row in spark.sql(f"SHOW PARTITIONS {self.table}").collect()}
        missing = [entry.write for entry in entries if f"{_WRITE}={entry.write}" not in shown]
        if missing:
            partitions = " ".join(f"PARTITION ({_WRITE} = '{write}')" for write in missing)
            spark.sql(f"ALTER TABLE {self.table} ADD IF NOT EXISTS {partitions}")
        self._shown += len(entries)

    def _create(self, spark: SparkSession, entry: _Entry) -> None:
        fields = spark.read.format(self._format).load(str(self._folder(entry))).schema.fields
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.table} ({columns}, {_WRITE} STRING) USING {self._format} "
            f"PARTITIONED BY ({_WRITE}) LOCATION '{self._path / 'data'}'"
        )


def _flush(folder: Path) -> None:
    """Flush what Spark has written to the disk, before an entry says that it is there. Spark does not flush it."""
    for name, _, files in os.walk(folder):
        for file in files:
            REAL_WRITER.fsync_file(Path(name, file))
        REAL_WRITER.fsync_directory(Path(name))
    REAL_WRITER.fsync_directory(folder.parent)


def _condition(ranges: Iterable[tuple[str, int, int, int]]) -> Column:
    from pyspark.sql import functions as f

    parts: list[Any] = [
        (f.col("topic") == topic) & (f.col("partition") == partition) & f.col("offset").between(since, until - 1)
        for topic, partition, since, until in ranges
    ]
    return reduce(lambda a, b: a | b, parts)
