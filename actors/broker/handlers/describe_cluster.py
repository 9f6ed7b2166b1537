"""DescribeCluster: cluster id, brokers, and the broker that serves as the controller (KIP-700, KIP-919)."""

from __future__ import annotations

from actors.broker.handlers.authorization import cluster_operations
from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeClusterRequest, DescribeClusterResponse

API = DescribeClusterRequest
VERSIONS = (0, 2)

BROKERS, CONTROLLERS = 1, 2


def handle(context: HandlerContext, request: Request) -> DescribeClusterResponse:
    """Answered at once. Every broker passes requests on to the controller; the one with the least id is named."""
    m: DescribeClusterRequest = request.message
    if m.endpoint_type != BROKERS:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if m.endpoint_type == CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        return failed(m, request.version, code, "this is a broker's listener: ask for endpoint type 1")
    brokers, listener = context.broker.metadata.brokers, request.connection.listener
    known = ((brokers[i], brokers[i].endpoint(listener)) for i in sorted(brokers))
    reached = [(broker, at) for broker, at in known if at is not None]
    alive = [(broker, at) for broker, at in reached if broker.alive]
    return DescribeClusterResponse(
        cluster_id=context.broker.metadata.cluster_id,
        controller_id=alive[0][0].id if alive else -1,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=b.id, host=at.host, port=at.port, rack=b.rack, is_fenced=not b.alive
            )
            for b, at in (reached if m.include_fenced_brokers else alive)
        ],
        cluster_authorized_operations=cluster_operations(context, request, m.include_cluster_authorized_operations),
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeClusterResponse:
    """The whole request refused."""
    return DescribeClusterResponse(error_code=code, error_message=text)
