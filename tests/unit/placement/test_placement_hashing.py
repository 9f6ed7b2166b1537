"""The partition of a group and of a key: the vectors of Kafka's own arithmetic."""

from __future__ import annotations

import random

import pytest

from placement.hashing import java_hash, murmur2, partition_for_group, partition_for_key

LEAST_INT = -(1 << 31)

# group id, UTF-16 units, hash, partition of 50, partition of 7
GROUPS = [
    ("consume_group", 13, -823236484, 34, 0),
    ("", 0, 0, 0, 0),
    ("a", 1, 97, 47, 6),
    ("Aa", 2, 2112, 12, 5),
    ("BB", 2, 2112, 12, 5),
    ("my-group", 8, -1906497762, 12, 1),
    ("test-group", 10, 627841412, 12, 2),
    ("console-consumer-42", 19, 1109249087, 37, 2),
    ("connect-cluster", 15, 1440343063, 13, 5),
    ("payments-service.v2", 19, 1873119989, 39, 6),
    ("\u6d88\u8d39\u7ec4", 3, 28099635, 35, 4),
    ("caf\u00e9", 4, 3045921, 21, 4),
    ("\U0001f600", 2, 1772899, 49, 2),
    ("group-\U0001f680-1", 10, -1358329515, 15, 4),
    ("\U0001d54f", 2, 1772474, 24, 4),
    ("polygenelubricants", 18, LEAST_INT, 0, 0),
    ("DESIGNING WORKHOUSES", 20, LEAST_INT, 0, 0),
    ("z" * 16, 16, -509494784, 34, 1),
]


@pytest.mark.conformance("A-01")
def test_consume_group_is_in_partition_34_of_50() -> None:
    assert partition_for_group("consume_group", 50) == 34


@pytest.mark.conformance("A-02")
@pytest.mark.parametrize(("group", "units", "hash_code", "of_50", "of_7"), GROUPS)
def test_group_vectors(group: str, units: int, hash_code: int, of_50: int, of_7: int) -> None:
    assert len(group.encode("utf-16-be")) == 2 * units
    assert java_hash(group) == hash_code
    assert partition_for_group(group, 50) == of_50
    assert partition_for_group(group, 7) == of_7


def test_text_is_not_normalised() -> None:
    assert (java_hash("\u00e9"), partition_for_group("\u00e9", 50)) == (233, 33)
    assert (java_hash("e\u0301"), partition_for_group("e\u0301", 50)) == (3900, 0)


@pytest.mark.conformance("A-03")
@pytest.mark.parametrize("group", ["polygenelubricants", "DESIGNING WORKHOUSES"])
def test_the_least_hash_goes_to_partition_0(group: str) -> None:
    assert java_hash(group) == LEAST_INT
    for count in range(1, 201):
        assert partition_for_group(group, count) == 0


@pytest.mark.conformance("A-04")
def test_absolute_value_before_or_after_the_remainder_is_the_same() -> None:
    chance = random.Random(4)
    groups = ["".join(map(chr, chance.choices(range(0x11000), k=chance.randrange(24)))) for _ in range(10_000)]
    assert any(0xD800 <= ord(c) < 0xE000 for group in groups for c in group), "no surrogate among them"
    for group in groups:
        count = chance.randrange(1, 200)
        value = java_hash(group)
        assert LEAST_INT < value < 1 << 31
        remainder = value - count * int(value / count)  # Java's: keeps the sign of the dividend
        assert partition_for_group(group, count) == abs(remainder)


@pytest.mark.conformance("A-05")
def test_colliding_groups_share_a_partition() -> None:
    for count in range(1, 201):
        assert partition_for_group("Aa", count) == partition_for_group("BB", count)


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        partition_for_group("g", count)


# Keys, and their hashes by Kafka's default partitioner.
KEYS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "hash_code"), KEYS)
def test_murmur2_vectors(key: bytes, hash_code: int) -> None:
    assert murmur2(key) == hash_code
    assert partition_for_key(key, 12) == (hash_code & 0x7FFFFFFF) % 12
