"""Kafka's hashes, of groups to offsets partitions and of keys to topic partitions. Pure arithmetic."""

from __future__ import annotations

_MASK32 = 0xFFFFFFFF
_INT_MIN = -(1 << 31)


def _signed32(value: int) -> int:
    value &= _MASK32
    return value - (1 << 32) if value & 0x80000000 else value


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: a signed 32-bit number over the UTF-16 code units, no normalisation."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & _MASK32
    return _signed32(value)


def partition_for_group(group_id: str, partition_count: int) -> int:
    """A group's partition of `__consumer_offsets`: `abs(hash) mod count`, where abs of the least int is 0.

    Raises ValueError if `partition_count` is below 1.
    """
    if partition_count < 1:
        raise ValueError(f"offsets.topic.num.partitions must be at least 1, got {partition_count}")
    value = java_hash(group_id)
    return 0 if value == _INT_MIN else abs(value) % partition_count


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (seed 0x9747b28c), as a signed number."""
    length = len(data)
    m = 0x5BD1E995
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & _MASK32
        k ^= k >> 24
        h = (h * m & _MASK32) ^ (k * m & _MASK32)
    if length & 3:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & _MASK32
    h ^= h >> 13
    h = h * m & _MASK32
    return _signed32(h ^ (h >> 15))


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that Kafka's default partitioner gives a record with a key: `toPositive(murmur2) mod count`."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
