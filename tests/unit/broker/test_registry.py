"""The table of requests: it is whole, and says what the code does."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from actors import group_api
from actors.broker import handlers
from actors.broker.handlers.registry import APIS, Api, Runs
from actors.settings import BrokerConfig
from actors.wire.api_keys import ApiKey
from actors.wire.codec import ApiMessage
from actors.wire.messages import request_class


def test_what_shards_serve_is_what_the_table_says() -> None:
    relayed = {key for key, api in APIS.items() if api.runs is Runs.SHARD}
    assert relayed == set(group_api.MODULES), "MODULES of actors/group_api and the rows of the registry differ"
    assert {key: (api.first, api.last) for key, api in APIS.items() if api.runs is Runs.SHARD} == {
        key: module.VERSIONS for key, module in group_api.MODULES.items()
    }


def test_every_handler_has_a_row() -> None:
    found = [importlib.import_module(f"{handlers.__name__}.{m.name}") for m in pkgutil.iter_modules(handlers.__path__)]
    unused = [module.__name__ for module in found if hasattr(module, "API") and module.API.api_key not in APIS]
    assert not unused, "give these a row in actors/broker/handlers/registry.py"


def first_field(request: type[ApiMessage], version: int) -> bytes:
    """The bytes in front of everything else, the group named "g"."""
    return request(group_id="g").encode(version)[:3]


@pytest.mark.parametrize("api", [api for api in APIS.values() if api.names is not None], ids=lambda api: api.key.name)
def test_a_relayed_request_begins_with_its_group(api: Api) -> None:
    for version in range(api.first, api.last + 1):
        if api.key is ApiKey.OFFSET_FETCH and version >= 8:
            continue  # an array of groups
        flexible = version >= api.request.flexible_from
        assert first_field(request_class(api.key), version).startswith(b"\x02g" if flexible else b"\x00\x01g")


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_every_row_says_how_it_is_handled_and_bounded(api: Api) -> None:
    assert api.handle is not None or api.names is not None
    assert api.first <= api.served_from <= api.last
    assert BrokerConfig.from_mapping({}).integer(api.limit) > 0


def test_the_rights_are_those_of_kafkas_page() -> None:
    found = {
        api.key: " ".join(f"{right.operation.name}:{right.resource.name}" for right in api.rights)
        for api in APIS.values()
    }
    assert found[ApiKey.OFFSET_COMMIT] == "READ:GROUP READ:TOPIC"
    assert found[ApiKey.OFFSET_DELETE] == "DELETE:GROUP READ:TOPIC"
    assert found[ApiKey.CREATE_PARTITIONS] == "ALTER:TOPIC"
    assert {key for key, rights in found.items() if not rights} == {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }, "Kafka asks for no right for these five alone"
