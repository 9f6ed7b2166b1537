"""The columns of Spark's own Kafka source, as an Arrow schema and as a Spark schema."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from actors.client.consumer.range_columns import range_schema


def arrow_schema(headers: bool = False) -> pa.Schema:
    """key, value, topic, partition, offset, timestamp (µs, UTC), timestampType and, if asked for, headers."""
    return range_schema(headers)


def spark_schema(headers: bool = False) -> StructType:
    """The same columns as a Spark schema. All may be null, as in Spark's Kafka source."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    pair = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    return StructType([*fields, StructField("headers", ArrayType(pair))] if headers else fields)
