"""The group that is cut out of a frame, and judged, is the group that the shard reads out of it."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.entrance.routing import group_of
from actors.broker.handlers.registry import APIS, Api
from actors.wire.api_keys import ApiKey
from actors.wire.framing import decode_request_header
from actors.wire.messages import OffsetFetchRequest, request_class
from actors.wire.varints import uvarint

_HEAD = struct.Struct(">hhih")
groups = st.text(max_size=300)
clients = st.none() | st.text(max_size=20)
tags = st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200)), max_size=3)


def frame_of(api: Api, version: int, group: str, client: str | None, tagged: list[tuple[int, bytes]]) -> bytes:
    if api.key is ApiKey.OFFSET_FETCH and version >= 8:
        message: Any = OffsetFetchRequest(
            groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[])]
        )
    else:
        message = request_class(api.key)(group_id=group)
    name = b"" if client is None else client.encode()
    head = _HEAD.pack(api.key, version, 7, -1 if client is None else len(name)) + name
    if version >= api.request.flexible_from:
        head += uvarint(len(tagged)) + b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in tagged)
    return head + message.encode(version)


@pytest.mark.conformance("XC-81")
@pytest.mark.parametrize("api", [api for api in APIS.values() if api.names is not None], ids=lambda api: api.key.name)
@given(groups, clients, tags, st.data())
def test_what_is_judged_is_what_is_read(
    api: Api, group: str, client: str | None, tagged: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    version = data.draw(st.integers(api.first, api.last))
    frame = frame_of(api, version, group, client, tagged)
    length = _HEAD.unpack_from(frame)[3]
    flexible = version >= api.request.flexible_from
    cut = group_of(frame, 0, len(frame), api.key, version, length, flexible)
    header = decode_request_header(frame)
    read: Any = request_class(api.key).decode(frame, version, header.body_offset)
    assert cut is not None
    assert cut.decode() == (read.groups[0].group_id if read.api_key == 9 and version >= 8 else read.group_id) == group
