"""The files made from Apache Kafka's jars are of the release tested against; its classes read all our messages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from actors.wire.api_keys import ApiKey
from actors.wire.codec import ApiMessage
from actors.wire.errors import ErrorCode
from actors.wire.messages import message_class
from tests.compat.apache_kafka import kafka_clients_jar, kafka_jars
from tests.compat.peers import ROOT, UnavailableError
from tests.compat.remote import Remote
from tests.support.random_messages import random_message
from tools.generate_messages import Schema, build

SCHEMA = json.loads((ROOT / "actors" / "wire" / "schema.json").read_text())
KEYS = ROOT / "actors" / "settings" / "kafka_keys.json"
SEEDS = 8


@pytest.fixture(scope="module")
def jar() -> Path:
    try:
        return kafka_clients_jar()
    except UnavailableError as reason:
        pytest.skip(f"there is no jar of Kafka's clients here: {reason}")


def test_the_schema_is_that_of_kafkas_release(jar: Path) -> None:
    assert build(jar) == SCHEMA, "run: python -m tools.generate_messages"


def test_every_api_of_kafka_has_its_name(jar: Path) -> None:
    assert Schema(jar).api_keys() == {int(key): key.label for key in ApiKey}


def test_every_error_of_kafka_has_its_name(java: Remote) -> None:
    assert java.ask("errors") == {error.name: int(error) for error in ErrorCode}


def test_the_list_of_keys_is_that_of_kafkas_release(jar: Path) -> None:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*", str(ROOT / "tools" / "KafkaKeys.java")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert printed == KEYS.read_text(), f"run: {' '.join(command)} > {KEYS.relative_to(ROOT)}"


@pytest.mark.parametrize("name", SCHEMA)
def test_kafkas_classes_write_what_they_read_of_ours(java: Remote, name: str) -> None:
    cls: type[ApiMessage] = message_class(name)
    first, last = SCHEMA[name]["versions"]
    messages = [
        (version, random_message(cls, version, seed)) for version in range(first, last + 1) for seed in range(SEEDS)
    ]
    ours = [message.encode(version).hex() for version, message in messages]
    kind = {"api_key": cls.api_key, "request": name.endswith("Request")}
    orders = [{**kind, "version": version, "bytes": text} for (version, _), text in zip(messages, ours, strict=True)]
    assert java.ask("messages", messages=orders)["written"] == ours
    for (version, message), text in zip(messages, ours, strict=True):
        assert cls.decode(bytes.fromhex(text), version) == message
