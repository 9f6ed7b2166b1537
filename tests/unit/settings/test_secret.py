"""Secrets show nowhere and do not leave their process."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pickle
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
import ray.cloudpickle

from actors.broker.spec import BrokerSpec
from actors.controller.spec import ControllerSpec
from actors.members.pools.handler_member import MemberSpec
from actors.members.ranges.group import RangeMemberSpec
from actors.settings.secret import Secret, cache_key
from spark_bridge.source import Reading
from tests.support.pyspark_there import HAS_PYSPARK

PASSWORD = Secret("swordfish")
HOLDERS: list[Any] = [
    PASSWORD,
    {"a": [PASSWORD]},
    BrokerSpec(0, "h", (), "/d", "/s", {"ssl.key.password": PASSWORD}),  # type: ignore[dict-item]
    ControllerSpec("n", "/d", "h", 1, 0, "/s", "/f", {"ssl.key.password": PASSWORD}, "v"),  # type: ignore[dict-item]
    MemberSpec(("t",), "g", "h:1", options={"password": PASSWORD}),
    RangeMemberSpec("g", "h:1", options={"password": PASSWORD}),
    Reading("h:1", consumer_options={"password": PASSWORD}),
]
PICKLERS = [pickle.dumps, ray.cloudpickle.dumps]
if HAS_PYSPARK:
    PICKLERS.append(importlib.import_module("pyspark.cloudpickle").dumps)


@pytest.mark.conformance("XE-30")
@pytest.mark.parametrize("shown", [str, repr, "{}".format, "%s".__mod__, lambda secret: f"{[secret]}"])
def test_a_secret_is_shown_as_hidden(shown: Callable[[Any], str]) -> None:
    assert shown(PASSWORD).strip("[]") == "hidden"


@pytest.mark.conformance("XE-30")
@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
@pytest.mark.parametrize("dumps", PICKLERS)
def test_what_holds_a_secret_is_not_pickled(dumps: Callable[[Any], bytes], holder: Any) -> None:
    with pytest.raises(TypeError, match="path of a file"):
        dumps(holder)
    assert "swordfish" not in repr(holder)


@pytest.mark.conformance("XE-30")
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_protocol_of_pickle_takes_a_secret(protocol: int) -> None:
    with pytest.raises(TypeError, match="reveal"):
        pickle.dumps(PASSWORD, protocol)


@pytest.mark.conformance("XE-30")
@pytest.mark.parametrize("encode", [json.dumps, msgpack.packb])
def test_a_secret_is_neither_json_nor_msgpack(encode: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="Secret"):
        encode({"password": PASSWORD})


@pytest.mark.conformance("XE-30")
def test_secrets_of_one_text_are_equal() -> None:
    assert Secret("swordfish") == PASSWORD
    assert Secret("swordfis") != PASSWORD
    assert PASSWORD != "swordfish"
    assert Secret("\udc80") != Secret("\udc81"), "bytes of an environment that are no text"


@pytest.mark.conformance("XE-30")
def test_equality_compares_digests_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert Secret("a") != Secret("a longer one")
    assert [(len(a), len(b)) for a, b in compared] == [(32, 32)]


@pytest.mark.conformance("XE-30")
def test_the_text_is_given_by_name_alone() -> None:
    assert PASSWORD.reveal() == "swordfish"
    for read in (hash, len, iter, bytes):
        with pytest.raises(TypeError):
            read(PASSWORD)  # type: ignore[operator]


@pytest.mark.conformance("XE-30")
def test_a_copy_is_the_secret_itself() -> None:
    assert copy.copy(PASSWORD) is PASSWORD
    assert copy.deepcopy([PASSWORD])[0] is PASSWORD


@pytest.mark.conformance("XE-30")
def test_digests_are_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked process makes a key of its own."""
    assert PASSWORD.digest() == Secret("swordfish").digest() != Secret("Swordfish").digest()
    forked: list[Callable[[], None]] = []
    monkeypatch.setattr(os, "register_at_fork", lambda after_in_child: forked.append(after_in_child))
    spec = importlib.util.find_spec("actors.settings.secret")
    assert spec is not None
    assert spec.loader is not None
    elsewhere = importlib.util.module_from_spec(spec)  # as another process has it
    spec.loader.exec_module(elsewhere)
    digests = [PASSWORD.digest(), elsewhere.Secret("swordfish").digest()]
    for in_child in forked:
        in_child()
        digests.append(elsewhere.Secret("swordfish").digest())
    assert len(set(digests)) == len(digests) == 3


@pytest.mark.conformance("XF-08")
def test_a_cache_key_tells_apart_what_is_not_equal() -> None:
    values: list[Any] = [
        *(None, True, 1, 1.0, "1", b"1", "[hidden]", [1], (1,), {1}, {"a": 1}, {"a": [1]}, {"a": 1, "b": 1}),
        *(Secret("a"), Secret("b"), {"a": Secret("a")}, {"a": Secret("b")}, {"a": [Secret("b")]}),
    ]
    keys = [cache_key(value) for value in values]
    assert len(set(keys)) == len(keys)
    assert [cache_key(value) for value in copy.deepcopy(values)] == keys
    assert "swordfish" not in repr(cache_key({"password": PASSWORD}))


@pytest.mark.conformance("XF-08")
def test_what_cannot_be_told_apart_has_no_key_in_common() -> None:
    held = Reading("h:1", consumer_options={"password": PASSWORD})
    assert cache_key(held) != cache_key(held)
    assert cache_key({"a": [held]}) != cache_key({"a": [held]})
