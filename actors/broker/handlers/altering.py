"""The common parts of AlterConfigs and IncrementalAlterConfigs: the controller's call, and the form of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from actors.broker.handlers import broker_loggers
from actors.broker.handlers.authorization import DENIED, may
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.broker.handlers.rights import ALTER_CONFIGS_CLUSTER, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_TOPIC, Right
from actors.broker.handlers.store_changes import of_own_stores, prospect
from actors.links.operations import AlterConfigs, AlteredConfigs, ChangedResource, ConfigChange, ResourceOutcome
from actors.security.acl import CLUSTER_NAME
from actors.wire.config_resources import ConfigResourceType
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
) -> ApiMessage | None:
    """Have the controller change settings. `replace`: those that a resource does not name go back to their defaults.

    If the client may change none of them, the answer is returned at once.
    """
    given = request.message.resources
    times = Counter((resource.resource_type, resource.resource_name) for resource in given)
    settled = {
        (resource.resource_type, resource.resource_name): outcome
        for resource in given
        if times[resource.resource_type, resource.resource_name] == 1
        and (outcome := _settled(context, request, resource, replace)) is not None
    }
    resources = tuple(
        ChangedResource(resource.resource_type, resource.resource_name, replace, tuple(operations(resource)))
        for resource in given
        if (resource.resource_type, resource.resource_name) not in settled
    )

    stores = of_own_stores(resources, context.broker.broker_id)

    def answer(altered: AlteredConfigs) -> R:
        for resource, outcome in zip(resources, altered.resources, strict=True):
            if not outcome.error_code:
                context.idle_settings.note(resource.type, (change.key for change in resource.operations))
                if resource is stores and not request.message.validate_only:
                    context.certificates.read_again()
        decided = iter(altered.resources)
        keys = ((resource.resource_type, resource.resource_name) for resource in given)
        return answered(response, (settled.get(key) or next(decided) for key in keys))

    if settled and not resources:
        return answer(AlteredConfigs(()))

    def go_on(problem: str | None) -> None:
        if problem is not None:
            request.reply(failed(request.message, request.version, ErrorCode.INVALID_REQUEST, problem))
            return
        forward(context.broker, request, AlterConfigs(resources, request.message.validate_only), answer, failed)

    config = prospect(context.broker, stores) if stores is not None else None
    if config is None:
        go_on(None)
    else:
        context.certificates.try_out(config, go_on)
    return None


def _lacking(context: HandlerContext, request: Request, kind: int, name: str) -> Right | None:
    """The right that the client would need to change the settings of a resource, and has not."""
    match kind:
        case ConfigResourceType.TOPIC:
            right = ALTER_CONFIGS_TOPIC
        case ConfigResourceType.GROUP:
            right = ALTER_CONFIGS_GROUP
        case _:
            right, name = ALTER_CONFIGS_CLUSTER, CLUSTER_NAME
    return None if may(context, request, right, name) else right


def _settled(context: HandlerContext, request: Request, resource: Any, replace: bool) -> ResourceOutcome | None:
    """The outcome for a resource that needs no controller."""
    kind, name = resource.resource_type, resource.resource_name
    right = _lacking(context, request, kind, name)
    if right is not None:
        return ResourceOutcome(kind, name, DENIED[right.resource], None)
    if kind == ConfigResourceType.BROKER_LOGGER and not replace:
        return broker_loggers.altered(context, resource, validate_only=request.message.validate_only)
    return None


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
