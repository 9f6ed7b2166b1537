"""A broker says what it does not serve: to clients by UNSUPPORTED_VERSION, to its owner by a name in the log."""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers.registry import APIS, Api, Runs
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiVersionsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from tests.support.handler_helpers import Broker
from tests.support.one_broker import VERSIONS, world
from tests.support.runtime_helpers import until

GROUPS: dict[type[Any], dict[str, Any]] = {
    ShareGroupDescribeRequest: {"group_ids": ["a", "b"]},
    DescribeShareGroupOffsetsRequest: {
        "groups": [
            DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None)
            for each in ("a", "b")
        ]
    },
}


REFUSED = [api for api in APIS.values() if api.runs is Runs.NOWHERE]


@pytest.mark.conformance("XC-67")
@pytest.mark.parametrize("api", REFUSED, ids=lambda api: api.key.name)
def test_a_group_protocol_that_is_not_served_is_refused_by_name(tmp_path: Path, api: Api) -> None:
    broker = Broker(tmp_path)
    for version in range(api.first, api.last + 1):
        response = broker.ask(api.request(**GROUPS.get(api.request, {})), version)
        refused = response.groups if api.request in GROUPS else [response]
        assert [each.error_code for each in refused] == [ErrorCode.UNSUPPORTED_VERSION] * len(refused)
        assert all("not served" in each.error_message for each in refused)
        if api.request in GROUPS:
            assert [each.group_id for each in refused] == ["a", "b"]


def test_what_is_refused_stands_in_api_versions(tmp_path: Path) -> None:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    listed = {each.api_key: (each.min_version, each.max_version) for each in Broker(tmp_path).ask(request, 3).api_keys}
    assert {api.key: (api.first, api.last) for api in REFUSED}.items() <= listed.items()


@pytest.mark.conformance("XA-24")
@pytest.mark.parametrize(
    ("api_key", "version", "said"),
    [
        (58, 2, "Envelope is not served"),
        (999, 2, "API key 999 is not served"),
        (-5, 2, "API key -5"),
        (3, 99, "Metadata v99 is not served"),
    ],
)
async def test_an_api_that_is_not_served_is_logged_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, api_key: int, version: int, said: str
) -> None:
    """The header's form depends on the API, and nothing of it was readable: "malformed request header: 58"."""
    with caplog.at_level(logging.WARNING):
        async with world(tmp_path) as w:
            stranger, other = await w.client(), await w.client()
            stranger.writer.write(struct.pack(">ihhihB", 11, api_key, version, 1, -1, 0))
            assert await asyncio.wait_for(stranger.closed(), 60)
            await until(lambda: said in caplog.text)
            other.send(VERSIONS)
            assert (await other.answer()).error_code == 0
    assert "malformed" not in caplog.text


TRANSACTIONS = (
    *(ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS),
    ApiKey.TXN_OFFSET_COMMIT,
)


@pytest.mark.conformance("XC-48", "XC-49", "XC-50")
async def test_requests_of_transactions_close_the_connection_unread(tmp_path: Path) -> None:
    """Of a super user, too: there is nothing that a right could be asked for."""
    names = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS",
    }
    async with world(tmp_path, **names) as w:
        told = await w.client()
        listed = {each.api_key for each in (await told.ask(ApiVersionsRequest(), 0)).api_keys}
        for key in TRANSACTIONS:
            assert key not in APIS
            assert key not in listed
            client = await w.client()
            client.writer.write(struct.pack(">ihhihB", 11, key, 0, 1, -1, 0))
            assert await asyncio.wait_for(client.closed(), 60)
