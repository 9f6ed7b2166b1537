"""What AlterConfigs and IncrementalAlterConfigs share: the call of the controller, and the form of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import AlterConfigs, AlteredConfigs, ChangedResource, ConfigChange, ResourceOutcome
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterConfigsResponse, ApiMessage, IncrementalAlterConfigsResponse

R = TypeVar("R", AlterConfigsResponse, IncrementalAlterConfigsResponse)


def ask(
    context: HandlerContext,
    request: Request,
    response: type[R],
    failed: Callable[[ApiMessage, int, ErrorCode, str | None], ApiMessage],
    operations: Callable[[Any], Iterable[ConfigChange]],
    *,
    replace: bool,
) -> None:
    """Have the controller change settings. `replace`: those that a resource does not name go back to their defaults."""
    resources = tuple(
        ChangedResource(resource.resource_type, resource.resource_name, replace, tuple(operations(resource)))
        for resource in request.message.resources
    )

    def answer(altered: AlteredConfigs) -> R:
        for resource, outcome in zip(resources, altered.resources, strict=True):
            if not outcome.error_code:
                context.idle_settings.note(resource.type, (change.key for change in resource.operations))
        return answered(response, altered.resources)

    forward(context.broker, request, AlterConfigs(resources, request.message.validate_only), answer, failed)


def answered(response: type[R], outcomes: Iterable[ResourceOutcome]) -> R:
    """The response with the outcome of each resource."""
    return response(
        responses=[
            response.AlterConfigsResourceResponse(
                error_code=outcome.error_code,
                error_message=outcome.error_message,
                resource_type=outcome.type,
                resource_name=outcome.name,
            )
            for outcome in outcomes
        ]
    )


def refused(response: type[R], resources: Iterable[Any], code: ErrorCode, text: str | None) -> R:
    """The response that refuses every resource for one reason."""
    return answered(response, [ResourceOutcome(r.resource_type, r.resource_name, code, text) for r in resources])
