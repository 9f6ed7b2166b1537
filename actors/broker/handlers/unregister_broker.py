"""UnregisterBroker: a broker that holds nothing is gone for good (KIP-631); `kafka-cluster.sh unregister` sends it.

Kafka unregisters any broker, and leaves replicas on it that nobody will have again. Here one that holds some is
refused: `coterie brokers remove` moves them first.
"""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import BrokerUnregistered, UnregisterBroker
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, UnregisterBrokerRequest, UnregisterBrokerResponse

API = UnregisterBrokerRequest
VERSIONS = (0, 0)


def handle(context: HandlerContext, request: Request) -> None:
    """Answered by the controller."""
    m: UnregisterBrokerRequest = request.message
    forward(context.broker, request, UnregisterBroker(m.broker_id), _answer, failed)


def _answer(done: BrokerUnregistered) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=done.error_code, error_message=done.error_message)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> UnregisterBrokerResponse:
    """The whole request refused."""
    return UnregisterBrokerResponse(error_code=code, error_message=text)
