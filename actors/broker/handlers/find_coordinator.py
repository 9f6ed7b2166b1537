"""FindCoordinator: which broker leads the partition in which a key, a group's id, is coordinated. Any broker answers.

If the key is coordinated here and its shard is still being started, the answer waits for the shard.
"""

from __future__ import annotations

from functools import partial

from actors.broker.handlers.authorization import DENIED, may
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.in_turns import Work, in_turns
from actors.broker.handlers.rights import CLUSTER_ACTION, DESCRIBE_TRANSACTIONAL_ID, Right
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.security.acl import CLUSTER_NAME, AclOperation
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, FindCoordinatorRequest, FindCoordinatorResponse

API = FindCoordinatorRequest
VERSIONS = (0, 6)

TRANSACTION, SHARE = 1, 2
_RIGHTS = {TRANSACTION: DESCRIBE_TRANSACTIONAL_ID, SHARE: CLUSTER_ACTION}
"""The right on a key that has no kind of coordinator here."""
# An error that is fatal to all clients, and whose text most of them show. With the retriable COORDINATOR_NOT_AVAILABLE
# a transactional producer would wait for its whole timeout.
NO_TRANSACTIONS = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported yet")

Coordinator = FindCoordinatorResponse.Coordinator
_KEYS_A_TURN = 500


def handle(context: HandlerContext, request: Request) -> ApiMessage | None:
    """From version 4 on there is an answer for each key (KIP-699), before there is one in all."""
    return in_turns(context, request, _work(context, request), failed)


def _work(context: HandlerContext, request: Request) -> Work:
    m: FindCoordinatorRequest = request.message
    keys = m.coordinator_keys if request.version >= 4 else [m.key]
    kind = next((kind for kind in context.coordinators if kind.key_type == m.key_type), None)
    found: list[Coordinator] = []
    for key in keys:
        if len(found) % _KEYS_A_TURN == _KEYS_A_TURN - 1:
            yield None
        found.append(_refuse(context, request, key) if kind is None else _find(context, request, kind, key))
    if kind is None:
        return _response(request, found)
    return _Lookup(context, request, kind, found).begin()


class _Lookup:
    """One request. It waits until it is known whether the shards of its keys serve, as far as they are here."""

    def __init__(
        self, context: HandlerContext, request: Request, kind: CoordinatorKind, found: list[Coordinator]
    ) -> None:
        self._context = context
        self._request = request
        self._kind = kind
        self._listener = request.connection.listener
        self._found = found
        self._here: dict[str, int] = {}  # partitions led here, by key
        self._codes: dict[int, ErrorCode] = {}  # by partition led here
        self._parked = False

    def begin(self) -> FindCoordinatorResponse | None:
        """The answer, or None if it comes later."""
        partition_of = partial(self._context.broker.partition_of, self._kind)
        self._here = {c.key: partition_of(c.key) for c in self._found if self._is_here(c)}
        led = dict.fromkeys(self._here.values())
        missing = set(led)

        def settled(partition: int, code: ErrorCode) -> None:
            missing.discard(partition)
            self._codes[partition] = code
            if not missing and self._parked:
                self._request.reply(self._answer())

        for partition in led:
            self._context.coordinators[self._kind].await_serving(partition, partial(settled, partition))
        self._parked = bool(missing)
        return None if missing else self._answer()

    def _answer(self) -> FindCoordinatorResponse:
        keys = {partition: key for key, partition in self._here.items()}  # one of each, for they are at one place
        placed = {partition: self._settled(key, partition) for partition, key in keys.items()}
        coordinators = [
            found if found.key not in self._here else _for(found.key, placed[self._here[found.key]])
            for found in self._found
        ]
        return _response(self._request, coordinators)

    def _settled(self, key: str, partition: int) -> Coordinator:
        """The answer for a key by the present metadata: the partition may have moved away while we waited."""
        found = _placed(self._context, self._listener, self._kind, key)
        if self._is_here(found) and self._codes.get(partition) is not ErrorCode.NONE:
            text = f"{self._kind.topic}-{partition} is being started"
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return found

    def _is_here(self, found: Coordinator) -> bool:
        return found.node_id == self._context.broker.broker_id


def _response(request: Request, coordinators: list[Coordinator]) -> FindCoordinatorResponse:
    if request.version >= 4:
        return FindCoordinatorResponse(coordinators=coordinators)
    return _single(coordinators[0])


def _refuse(context: HandlerContext, request: Request, key: str) -> Coordinator:
    """The answer for a key that has no kind of coordinator here."""
    key_type = request.message.key_type
    right = _RIGHTS.get(key_type)
    if right is not None and not may(context, request, right, CLUSTER_NAME if key_type == SHARE else key):
        return _refused(key, DENIED[right.resource], None)
    if key_type == TRANSACTION:
        return _refused(key, *NO_TRANSACTIONS)
    served = ", ".join(f"{kind.name} ({kind.key_type})" for kind in context.coordinators)
    text = f"key type {key_type} has no coordinator: only {served} have"
    return _refused(key, ErrorCode.INVALID_REQUEST, text)


def _find(context: HandlerContext, request: Request, kind: CoordinatorKind, key: str) -> Coordinator:
    if not may(context, request, Right(AclOperation.DESCRIBE, kind.resource), key):
        return _refused(key, DENIED[kind.resource], None)
    return _placed(context, request.connection.listener, kind, key)


def _placed(context: HandlerContext, listener: str, kind: CoordinatorKind, key: str) -> Coordinator:
    topic = kind.topic
    if topic not in context.broker.metadata.topics:
        context.internal_topics.ensure(kind)
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} is being created")
    index = context.broker.partition_of(kind, key)
    partition = context.broker.metadata.partition(topic, index)
    leader = context.broker.metadata.brokers.get(partition.leader) if partition else None
    if leader is None or not leader.alive:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic}-{index} has no leader")
    at = leader.endpoint(listener)
    if at is None:
        text = f"broker {leader.id}, which leads {topic}-{index}, has no listener {listener}"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return Coordinator(key=key, node_id=leader.id, host=at.host, port=at.port, error_message=None)


def _for(key: str, placed: Coordinator) -> Coordinator:
    """The answer for a key of the same partition."""
    return Coordinator(
        key=key,
        node_id=placed.node_id,
        host=placed.host,
        port=placed.port,
        error_code=placed.error_code,
        error_message=placed.error_message,
    )


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
