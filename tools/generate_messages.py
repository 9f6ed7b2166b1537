"""Writes `actors/wire/schema.json` and `actors/wire/messages.pyi` from kio's message schemas.

    python -m tools.generate_messages

kio has one dataclass a message and version; a handler wants one class a message. This folds the versions of
each message into one table: a field, its type, the versions that carry it and those in which it may be null.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import json
import types
import typing
import uuid
from pathlib import Path
from typing import Any

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

WIRE = Path(__file__).resolve().parent.parent / "actors" / "wire"

APIS = [
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "sasl_handshake",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "describe_configs",
    "alter_configs",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "sasl_authenticate",
    "create_partitions",
    "delete_groups",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "offset_delete",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "alter_user_scram_credentials",
    "describe_quorum",
    "update_features",
    "describe_cluster",
    "describe_producers",
    "list_transactions",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "share_group_heartbeat",
    "share_group_describe",
    "share_fetch",
    "share_acknowledge",
    "describe_share_group_offsets",
    "alter_share_group_offsets",
    "delete_share_group_offsets",
    "get_telemetry_subscriptions",
    "push_telemetry",
    "list_config_resources",
    "describe_topic_partitions",
]

# How kio's metadata names a type -> ours, and the type's place in Python.
_TIMES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
_SAME = ("string", "bytes", "records", "uuid", "bool", "int8", "int16", "uint16", "int32", "int64", "float64")
_PYTHON = {
    "string": "str", "bytes": "bytes", "records": "bytes", "uuid": "bytes", "bool": "bool", "float64": "float",
}  # fmt: skip
_ZERO: dict[str, Any] = {
    "string": "",
    "bytes": "",
    "records": None,
    "uuid": "0" * 32,
    "bool": False,
    "float64": 0.0,
}


_OURS = {
    "JoinGroupRequest": [
        ["expected_members", "int32", [6, 9], None, 0, 10_000],
        ["process", "string", [6, 9], None, "", 10_001],
    ]
}
"""Tagged fields of ours (rows as in `Field.row`). Kafka passes over tags that it does not know (KIP-482)."""


@dataclasses.dataclass
class Field:
    """One field over all versions of its message."""

    name: str
    type: str
    versions: list[int]
    nullable: list[int]
    default: Any
    tag: int | None

    def row(self) -> list[Any]:
        span = [min(self.versions), max(self.versions)]
        assert self.versions == list(range(span[0], span[1] + 1)), f"{self.name} comes and goes: {self.versions}"
        null_span = [min(self.nullable), max(self.nullable)] if self.nullable else None
        return [self.name, self.type, span, null_span, self.default, self.tag]


def _unwrap(annotation: Any) -> tuple[Any, bool, bool]:
    """(element type, is array, is nullable)."""
    nullable = array = False
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        nullable = True
        (annotation,) = [a for a in typing.get_args(annotation) if a is not type(None)]
    if typing.get_origin(annotation) is tuple:
        array = True
        annotation = typing.get_args(annotation)[0]
        if isinstance(annotation, types.UnionType):  # arrays of uuid: kio reads the zero uuid as None
            annotation = typing.get_args(annotation)[0]
    return annotation, array, nullable


def _default(value: Any, type_name: str, nullable: bool) -> Any:
    if value is dataclasses.MISSING:
        return [] if type_name.startswith("[]") else _ZERO.get(type_name, None if type_name[0].isupper() else 0)
    if value is None:
        return "0" * 32 if type_name == "uuid" else -1 if type_name in ("int32", "int64") else None
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, uuid.UUID):
        return value.hex
    if dataclasses.is_dataclass(value):
        return None
    if isinstance(value, tuple):
        assert value == ()
        return []
    if isinstance(value, bool | str | float):
        return value
    return int(value)


def _read_struct(cls: type, version: int, structs: dict[str, dict[str, Field]]) -> None:
    table = structs.setdefault(cls.__name__, {})
    order = list(table)
    position = 0
    for f in dataclasses.fields(cls):
        hints = typing.get_type_hints(cls)
        element, array, nullable = _unwrap(hints[f.name])
        kind = f.metadata.get("kafka_type")
        name = f.name
        if kind in _TIMES:
            type_name = _TIMES[kind]
            if not name.endswith("_ms"):
                name += "_ms"
            nullable = False
        elif kind == "error_code":
            type_name = "int16"
        elif kind in _SAME:
            type_name = kind
            nullable = nullable and type_name != "uuid"
        else:
            assert kind is None, (cls, f)
            type_name = element.__name__
            _read_struct(element, version, structs)
        if array:
            type_name = "[]" + type_name
        default = _default(f.default, type_name, nullable)
        if name in table:
            seen = table[name]
            assert seen.type == type_name, (cls, name, seen.type, type_name)
            assert seen.tag == f.metadata.get("tag"), (cls, name)
            seen.default = default
            if version not in seen.versions:  # one struct may stand in two places of a message
                seen.versions.append(version)
            position = order.index(name) + 1
        else:
            table[name] = Field(name, type_name, [version], [], default, f.metadata.get("tag"))
            order.insert(position, name)
            position += 1
        if nullable and version not in table[name].nullable:
            table[name].nullable.append(version)
    structs[cls.__name__] = {name: table[name] for name in order}


def build() -> dict[str, Any]:
    """Every message as {name: {api_key, versions, flexible, structs: {struct: [field row]}}}."""
    keys = {name: key for key, name in api_key_map.items()}
    messages: dict[str, Any] = {}
    for api in APIS:
        for entity in (EntityType.request, EntityType.response):
            versions = sorted(v for v, entities in schema_name_map[api].items() if entity in entities)
            structs: dict[str, dict[str, Field]] = {}
            flexible = max(versions) + 1
            for version in versions:
                path, name = schema_name_map[api][version][entity].split(":")
                cls = getattr(importlib.import_module(path), name)
                _read_struct(cls, version, structs)
                if cls.__flexible__:
                    flexible = min(flexible, version)
            ordered = {name: structs.pop(name), **structs}
            messages[name] = {
                "api_key": keys[api],
                "versions": [versions[0], versions[-1]],
                "flexible": flexible,
                "structs": {s: [f.row() for f in fields.values()] for s, fields in ordered.items()},
            }
    for name, rows in _OURS.items():
        messages[name]["structs"][name] += rows
    return messages


def _python_type(type_name: str, top: str) -> str:
    if type_name.startswith("[]"):
        return f"list[{_python_type(type_name[2:], top)}]"
    if type_name[0].isupper():
        return f"{top}.{type_name}"
    return _PYTHON.get(type_name, "int")


def stub(messages: dict[str, Any]) -> str:
    """The text of messages.pyi: what the classes made at run time look like to a type checker."""
    lines = [
        '"""Kafka\'s messages, one class each over all versions. Made by tools/generate_messages.py."""',
        "",
        "from actors.wire.codec import ApiMessage as ApiMessage, Message as Message",
        "",
        "def message_class(name: str) -> type[ApiMessage]: ...",
        "def request_class(api_key: int) -> type[ApiMessage]: ...",
        "def response_class(api_key: int) -> type[ApiMessage]: ...",
        "def api_name(api_key: int) -> str: ...",
        "",
    ]
    for name, spec in messages.items():
        lines.append(f"class {name}(ApiMessage):")
        structs = spec["structs"]
        for struct, rows in list(structs.items())[1:]:
            lines.append(f"    class {struct}(Message):")
            lines += _members(rows, name, "        ")
        lines += _members(structs[name], name, "    ")
        lines.append("")
    return "\n".join(lines)


def _members(rows: list[Any], top: str, indent: str) -> list[str]:
    out = []
    arguments = []
    for name, type_name, _, null_span, default, _tag in rows:
        text = _python_type(type_name, top)
        if null_span or default is None:
            text += " | None"
        out.append(f"{indent}{name}: {text}")
        arguments.append(f"{name}: {text} = ...")
    star = "*, " if arguments else ""
    out.append(f"{indent}def __init__(self, {star}{', '.join(arguments)}) -> None: ...")
    return out


def main() -> None:
    messages = build()
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(spec, separators=(',', ':'))}" for name, spec in messages.items()
    )
    (WIRE / "schema.json").write_text("{\n" + rows + "\n}\n")
    (WIRE / "messages.pyi").write_text(stub(messages))


if __name__ == "__main__":
    main()
