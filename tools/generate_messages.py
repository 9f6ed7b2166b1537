"""Writes `actors/wire/schema.json` and `actors/wire/messages.pyi` from the message schemas of Apache Kafka.

    python -m tools.generate_messages [JAR]

The schemas are the JSON files in the jar of Kafka's clients, which Maven brings if no JAR is named. They have one
table a message already, for all its versions. The fields keep their names as Python writes them, their types, the
versions that carry them, those in which they may be null, their defaults and tags.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.apache_kafka import kafka_clients_jar

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
    "unregister_broker",
]

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
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


_OURS = {
    "JoinGroupRequest": [
        ["expected_members", "int32", [6, 9], None, 0, 10_000],
        ["process", "string", [6, 9], None, "", 10_001],
    ],
    "ConsumerGroupHeartbeatRequest": [["process", "string", [0, 1], None, "", 10_001]],
}
"""Tagged fields of ours (rows as in `Field.row`). Kafka passes over tags that it does not know (KIP-482)."""


@dataclass
class Field:
    """One field over all versions of its message."""

    name: str
    type: str
    default: Any
    tag: int | None
    versions: set[int] = field(default_factory=set)
    nullable: set[int] = field(default_factory=set)

    def row(self) -> list[Any]:
        return [self.name, self.type, self._span(self.versions), self._span(self.nullable), self.default, self.tag]

    def _span(self, versions: set[int]) -> list[int] | None:
        if not versions:
            return None
        low, high = min(versions), max(versions)
        assert versions == {*range(low, high + 1)}, f"{self.name} comes and goes: {versions}"
        return [low, high]


Structs = dict[str, dict[str, Field]]


class Schema:
    """The schemas in a jar of Kafka's clients."""

    def __init__(self, jar: Path) -> None:
        with zipfile.ZipFile(jar) as archive:
            names = (name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name))
            texts = [archive.read(name).decode() for name in names]
        self._messages: dict[str, Any] = {}
        for text in texts:
            spec = json.loads(_COMMENT.sub("", text))
            self._messages[spec["name"]] = spec

    def api_keys(self) -> dict[int, str]:
        """The names of all APIs that a request has a key of."""
        requests = (spec for spec in self._messages.values() if spec["type"] == "request")
        return {spec["apiKey"]: spec["name"].removesuffix("Request") for spec in requests}

    def message(self, name: str) -> dict[str, Any]:
        """A message as {api_key, versions, flexible, structs: {struct: [field row]}}."""
        spec = self._messages[name]
        versions = _versions(spec["validVersions"])
        common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}
        structs: Structs = {}
        _read_struct(name, spec["fields"], versions, structs, common)
        return {
            "api_key": spec["apiKey"],
            "versions": [min(versions), max(versions)],
            "flexible": min(_versions(spec["flexibleVersions"], versions), default=max(versions) + 1),
            "structs": {struct: [each.row() for each in fields.values()] for struct, fields in structs.items()},
        }


def _versions(text: str, of: set[int] | None = None) -> set[int]:
    """The versions that "3", "3-5", "3+" or "none" names, of those there are."""
    low, mark, high = re.fullmatch(r"(\d+)([-+]?)(\d*)", text.replace("none", "1-0")).groups()  # type: ignore[union-attr]
    if mark == "+":
        return {version for version in of or () if version >= int(low)}
    named = {*range(int(low), int(high or low) + 1)}
    return named if of is None else named & of


def _read_struct(name: str, fields: list[Any], versions: set[int], structs: Structs, common: dict[str, Any]) -> None:
    """Enter the fields that a struct has in these versions. One struct may stand in several places of a message."""
    table = structs.setdefault(name, {})
    for spec in fields:
        own = _versions(spec["versions"], versions)
        if not own:  # of a version that Kafka has given up
            continue
        made = table.setdefault(_snake(spec["name"]), _field(spec, own))
        made.versions |= own
        if made.type != "uuid":
            made.nullable |= _versions(spec.get("nullableVersions", "none"), own)
        kind = made.type.removeprefix("[]")
        if kind[0].isupper():
            _read_struct(kind, spec.get("fields") or common[kind], own, structs, common)


def _field(spec: Any, versions: set[int]) -> Field:
    tagged = "taggedVersions" in spec
    if tagged:
        assert _versions(spec["taggedVersions"], versions) == versions, f"{spec['name']} has its tag in some versions"
    assert "flexibleVersions" not in spec, spec["name"]
    return Field(_snake(spec["name"]), spec["type"], _default(spec), spec["tag"] if tagged else None)


def _snake(name: str) -> str:
    return _WORD.sub("_", name).lower()


def _default(spec: Any) -> Any:
    kind, text = spec["type"], spec.get("default")
    if text is None:
        return [] if kind.startswith("[]") else _ZERO.get(kind, None if kind[0].isupper() else 0)
    if text == "null":
        return None
    if kind == "bool":
        return str(text).lower() == "true"
    return text if kind == "string" else int(str(text), 0)


def build(jar: Path) -> dict[str, Any]:
    """Every message of `APIS`, requests and responses, by name, with the fields of ours."""
    schema = Schema(jar)
    apis = ("".join(map(str.capitalize, api.split("_"))) for api in APIS)
    messages = {name: schema.message(name) for api in apis for name in (f"{api}Request", f"{api}Response")}
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
    messages = build(Path(sys.argv[1]) if sys.argv[1:] else kafka_clients_jar())
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(spec, separators=(',', ':'))}" for name, spec in messages.items()
    )
    (WIRE / "schema.json").write_text("{\n" + rows + "\n}\n")
    (WIRE / "messages.pyi").write_text(stub(messages))


if __name__ == "__main__":
    main()
