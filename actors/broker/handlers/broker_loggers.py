"""The levels of a broker's loggers, as settings of the resource BROKER_LOGGER (KIP-412).

The broker that is asked answers for itself and its shards. The rights are checked before.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Final

from actors.broker.handlers.context import HandlerContext
from actors.links.operations import ResourceOutcome
from actors.runtime.log_levels import LEVELS, ROOT, LogLevels
from actors.wire.config_resources import ConfigOperation, ConfigResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest

log = logging.getLogger(__name__)
logging.getLogger("actors.offsets_partition")  # that of shards' processes, which can be named here, too

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_DYNAMIC_BROKER_LOGGER_CONFIG: Final = 6

_Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
_Change = IncrementalAlterConfigsRequest.AlterableConfig
_Refusal = tuple[ErrorCode, str]


def described(
    context: HandlerContext, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    """The level in force of each logger that is asked for, and of all if none is named."""
    problem = _not_this_broker(context, resource.resource_name)
    levels, wanted = context.log_levels.shown(), resource.configuration_keys
    return DescribeConfigsResponse.DescribeConfigsResult(
        error_code=ErrorCode.NONE if problem is None else ErrorCode.INVALID_REQUEST,
        error_message=problem,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _Entry(name=name, value=level, config_source=_DYNAMIC_BROKER_LOGGER_CONFIG)
            for name, level in levels.items()
            if problem is None and (not wanted or name in wanted)
        ],
    )


def altered(
    context: HandlerContext, resource: IncrementalAlterConfigsRequest.AlterConfigsResource, *, validate_only: bool
) -> ResourceOutcome:
    """Change the levels that a resource names, all or none of them."""
    refusal = _refusal(context, resource)
    if refusal is None and not validate_only:
        for change in resource.configs:
            _change(context.log_levels, change)
        context.coordinators.set_log_levels(context.log_levels.changed)
    code, text = refusal or (0, None)
    return ResourceOutcome(ConfigResourceType.BROKER_LOGGER, resource.resource_name, code, text)


def _change(levels: LogLevels, change: _Change) -> None:
    if change.config_operation == ConfigOperation.SET:
        levels.set(change.name, change.value or "")
        log.warning("logger %s has the level %s", change.name, change.value)
    else:
        levels.inherit(change.name)
        log.warning("logger %s has the level of what is above it", change.name)


def _refusal(context: HandlerContext, resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> _Refusal | None:
    """The reason why a resource's levels cannot be changed: the first one that Kafka finds."""
    if any(times > 1 for times in Counter(change.name for change in resource.configs).values()):
        return ErrorCode.INVALID_REQUEST, "a logger may be named once"
    if any(each.value is None and each.config_operation != ConfigOperation.DELETE for each in resource.configs):
        return ErrorCode.INVALID_REQUEST, "a level cannot be null"
    problem = _not_this_broker(context, resource.resource_name)
    if problem is not None:
        return ErrorCode.INVALID_REQUEST, problem
    return next(filter(None, (_wrong(context.log_levels, change) for change in resource.configs)), None)


def _wrong(levels: LogLevels, change: _Change) -> _Refusal | None:
    if change.config_operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        return ErrorCode.INVALID_REQUEST, "a logger's level can be set (0) and deleted (1), and nothing else"
    if not levels.knows(change.name):
        return ErrorCode.INVALID_CONFIG, f"there is no logger {change.name!r}"
    if change.config_operation == ConfigOperation.SET:
        text = f"the level of {change.name} cannot be {change.value!r}: it is one of {', '.join(LEVELS)}"
        return None if change.value in LEVELS else (ErrorCode.INVALID_CONFIG, text)
    return (ErrorCode.INVALID_REQUEST, "the level of root cannot be deleted") if change.name == ROOT else None


def _not_this_broker(context: HandlerContext, name: str) -> str | None:
    own = context.broker.broker_id
    if not _NUMBER.fullmatch(name):
        return f"a broker's id is a number, not {name!r}"
    return None if int(name) == own else f"this is broker {own}: it has no loggers of broker {name}"
