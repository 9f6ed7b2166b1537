"""The APIs of Apache Kafka 4.4.0's brokers that are not served here, with the versions it serves, and why.

docs/protocol.md is made of it. All others end with the same version here; `tests/compat/test_versions.py` asks Kafka.
"""

from __future__ import annotations

from typing import Final

from actors.wire.api_keys import ApiKey

_TRANSACTIONS = "there are no transactions"
_TOKENS = "there are no delegation tokens"
_QUORUM = "the controller is one process, and no broker takes part in a quorum"
_SHARE = "share groups (KIP-932) are not served; brokers ask each other for their state"
_STREAMS = "streams groups (KIP-1071) are not served"

LEFT_OUT: Final[dict[ApiKey, tuple[int, int, str]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, _TRANSACTIONS),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, _TRANSACTIONS),
    ApiKey.END_TXN: (0, 5, _TRANSACTIONS),
    ApiKey.WRITE_TXN_MARKERS: (1, 2, _TRANSACTIONS),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6, _TRANSACTIONS),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, _TRANSACTIONS),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3, _TOKENS),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2, _TOKENS),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2, _TOKENS),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3, _TOKENS),
    ApiKey.ADD_RAFT_VOTER: (0, 1, _QUORUM),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0, _QUORUM),
    ApiKey.UNREGISTER_CONTROLLER: (0, 0, _QUORUM),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0, _SHARE),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0, _SHARE),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1, _SHARE),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0, _SHARE),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1, _SHARE),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1, _STREAMS),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1, _STREAMS),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (0, 0, _STREAMS),
}

BESIDES: Final = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS}
"""Advertised here alone: a Kafka does so where a plugin collects metrics of clients."""
