"""What AlterConfigs and IncrementalAlterConfigs share: asking the controller for changes, and the shape of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterConfigsResponse, ApiMessage, IncrementalAlterConfigsResponse

R = TypeVar("R", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Operation = tuple[str, int, str | None]
"""A setting's name, what to do with it (0 set, 1 delete, 2 append, 3 subtract; KIP-339), and a value."""


def ask(
    context: HandlerContext,
    request: Request,
    response: type[R],
    failed: Callable[[ApiMessage, int, ErrorCode, str | None], ApiMessage],
    operations: Callable[[Any], Iterable[Operation]],
    *,
    replace: bool,
) -> None:
    """Have the controller change the settings of the request's resources. `replace`: others go back to defaults."""
    resources = [
        {
            "type": resource.resource_type,
            "name": resource.resource_name,
            "replace": replace,
            "operations": [list(operation) for operation in operations(resource)],
        }
        for resource in request.message.resources
    ]
    arguments = {"resources": resources, "validate_only": request.message.validate_only}

    def answer(results: list[dict[str, Any]]) -> R:
        for resource, result in zip(resources, results, strict=True):
            if not result["error_code"]:
                context.idle_settings.note(resource["type"], (key for key, *_ in resource["operations"]))
        return answered(response, results)

    forward(context.broker, request, "alter_configs", arguments, answer, failed)


def answered(response: type[R], results: Iterable[Mapping[str, Any]]) -> R:
    """The response that says what became of each resource."""
    return response(
        responses=[
            response.AlterConfigsResourceResponse(
                error_code=result["error_code"],
                error_message=result["error_message"],
                resource_type=result["type"],
                resource_name=result["name"],
            )
            for result in results
        ]
    )


def refused(response: type[R], resources: Iterable[Any], code: ErrorCode, text: str | None) -> R:
    """The response that refuses every resource for one reason."""
    whole = {"error_code": code, "error_message": text}
    return answered(response, [{**whole, "type": r.resource_type, "name": r.resource_name} for r in resources])
