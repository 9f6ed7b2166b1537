"""All records of a log's bytes, as tests look at them."""

from collections.abc import Iterator

from actors.records.batch import Buffer, crc_matches, iter_batches
from actors.records.errors import CorruptBatchError
from actors.records.reading import Record, batch_records


def read_records(buffer: Buffer, *, verify_crc: bool = False) -> Iterator[Record]:
    """All records of all whole batches; control batches are skipped, a partial last batch is ignored.

    CorruptBatchError on damage (with `verify_crc` also on a wrong checksum).
    """
    view = memoryview(buffer)
    for start, end, header in iter_batches(buffer):
        if verify_crc and not crc_matches(view[start:end], header.crc):
            raise CorruptBatchError(f"batch at offset {header.base_offset} fails its checksum")
        if not header.is_control:
            yield from batch_records(view[start:end], header)
