"""FindCoordinator: which broker leads the offsets partition of a group. Any broker answers."""

from __future__ import annotations

from actors.broker.context import BrokerContext, Request
from actors.broker.handlers.offsets_topic import ensure_offsets_topic
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, FindCoordinatorRequest, FindCoordinatorResponse
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC

API = FindCoordinatorRequest
VERSIONS = (0, 6)

GROUP, TRANSACTION = 0, 1
# Fatal to every client, and told with its text by most. The retriable COORDINATOR_NOT_AVAILABLE would have a
# transactional producer wait for its whole timeout.
NO_TRANSACTIONS = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported yet")

Coordinator = FindCoordinatorResponse.Coordinator


def handle(context: BrokerContext, request: Request) -> FindCoordinatorResponse:
    """One answer a key from version 4 on (KIP-699), one in all before."""
    m: FindCoordinatorRequest = request.message
    if request.version >= 4:
        return FindCoordinatorResponse(coordinators=[_find(context, m.key_type, key) for key in m.coordinator_keys])
    return _single(_find(context, m.key_type, m.key))


def _find(context: BrokerContext, key_type: int, key: str) -> Coordinator:
    if key_type == TRANSACTION:
        return _refused(key, *NO_TRANSACTIONS)
    if key_type != GROUP:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"key type {key_type} has no coordinators here: groups (0) do")
    if not context.may_describe_group(key):
        return _refused(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    if OFFSETS_TOPIC not in context.metadata.topics:
        ensure_offsets_topic(context)
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} is being created")
    index = partition_for_group(key, context.offsets_partition_count())
    partition = context.metadata.partition(OFFSETS_TOPIC, index)
    leader = context.metadata.brokers.get(partition.leader) if partition else None
    if leader is None or not leader.alive:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC}-{index} has no leader")
    if leader.id == context.broker_id:
        context.shards.ensure(index)  # by the time the group's first request comes, it may serve
    return Coordinator(key=key, node_id=leader.id, host=leader.host, port=leader.port, error_message=None)


def _refused(key: str, code: ErrorCode, text: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)


def _single(found: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> FindCoordinatorResponse:
    """The whole request refused."""
    assert isinstance(message, FindCoordinatorRequest)
    if version >= 4:
        return FindCoordinatorResponse(coordinators=[_refused(key, code, text) for key in message.coordinator_keys])
    return _single(_refused(message.key, code, text))
