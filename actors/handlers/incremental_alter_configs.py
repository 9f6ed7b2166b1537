"""IncrementalAlterConfigs: sets, unsets, or changes items of single settings (KIP-339), decided by the controller."""

from __future__ import annotations

from typing import Any

from actors.handlers.context import BrokerContext, Request
from actors.handlers.forwarding import forward
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

API = IncrementalAlterConfigsRequest
VERSIONS = (0, 1)

Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def handle(context: BrokerContext, request: Request) -> None:
    """What a resource does not name stays as it is."""
    m: IncrementalAlterConfigsRequest = request.message
    arguments = {"resources": [_arguments(resource) for resource in m.resources], "validate_only": m.validate_only}
    forward(context, request, "alter_configs", arguments, _answer, failed)


def _arguments(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> dict[str, Any]:
    return {
        "type": resource.resource_type,
        "name": resource.resource_name,
        "replace": False,
        "operations": [[config.name, config.config_operation, config.value] for config in resource.configs],
    }


def _answer(results: list[dict[str, Any]]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
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


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> IncrementalAlterConfigsResponse:
    """The whole request refused."""
    assert isinstance(message, IncrementalAlterConfigsRequest)
    return IncrementalAlterConfigsResponse(
        responses=[
            Result(error_code=code, error_message=text, resource_type=r.resource_type, resource_name=r.resource_name)
            for r in message.resources
        ]
    )
