"""The columns of Spark's own Kafka source, as a Spark schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_schema(headers: bool = False) -> StructType:
    """The columns of `range_schema` for Spark. All may be null, as in Spark's Kafka source."""
    from pyspark.sql import types as t

    fields = [
        t.StructField("key", t.BinaryType()),
        t.StructField("value", t.BinaryType()),
        t.StructField("topic", t.StringType()),
        t.StructField("partition", t.IntegerType()),
        t.StructField("offset", t.LongType()),
        t.StructField("timestamp", t.TimestampType()),
        t.StructField("timestampType", t.IntegerType()),
    ]
    pair = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    return t.StructType([*fields, t.StructField("headers", t.ArrayType(pair))] if headers else fields)
