"""AlterConfigs: replaces all settings of a topic or broker, decided by the controller (KIP-133)."""

from __future__ import annotations

from typing import Any

from actors.handlers.context import BrokerContext, Request
from actors.handlers.forwarding import forward
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterConfigsRequest, AlterConfigsResponse, ApiMessage

API = AlterConfigsRequest
VERSIONS = (0, 2)

Result = AlterConfigsResponse.AlterConfigsResourceResponse

_SET = 0


def handle(context: BrokerContext, request: Request) -> None:
    """What a resource does not name goes back to its default."""
    m: AlterConfigsRequest = request.message
    arguments = {"resources": [_arguments(resource) for resource in m.resources], "validate_only": m.validate_only}
    forward(context, request, "alter_configs", arguments, _answer, failed)


def _arguments(resource: AlterConfigsRequest.AlterConfigsResource) -> dict[str, Any]:
    return {
        "type": resource.resource_type,
        "name": resource.resource_name,
        "replace": True,
        "operations": [[config.name, _SET, config.value] for config in resource.configs],
    }


def _answer(results: list[dict[str, Any]]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            Result(
                error_code=result["error_code"],
                error_message=result["error_message"],
                resource_type=result["type"],
                resource_name=result["name"],
            )
            for result in results
        ]
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> AlterConfigsResponse:
    """The whole request refused."""
    assert isinstance(message, AlterConfigsRequest)
    return AlterConfigsResponse(
        responses=[
            Result(error_code=code, error_message=text, resource_type=r.resource_type, resource_name=r.resource_name)
            for r in message.resources
        ]
    )
