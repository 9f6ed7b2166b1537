"""Classic requests for consumer groups: each becomes an operation on its group."""

from __future__ import annotations

from actors.coordinator.classic.messages import JoinGroupRequest
from actors.coordinator.consumer.executor import Executor
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import Operation
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.migration.join import Join
from actors.coordinator.turn import Now, Token


class Visits:
    def __init__(self, runtime: GroupRuntime, executor: Executor) -> None:
        self._runtime = runtime
        self._executor = executor

    def join(self, token: Token, request: JoinGroupRequest, now: Now) -> None:
        """JoinGroup. What no group would take was refused before."""
        self._submit(request.group_id, Join(token, request), now)

    def _submit(self, group_id: str | None, operation: Operation, now: Now) -> None:
        group = self._runtime.groups[group_id or ""]
        assert isinstance(group, ConsumerGroup)
        self._runtime.park(operation.token, operation.request)
        error = self._why_not(group)
        if error:
            self._executor.answer(operation, Refusal(error))
        else:
            self._executor.submit(group, operation, now)

    def _why_not(self, group: ConsumerGroup) -> Error:
        if self._executor.cluster.topics is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS
        return Error.COORDINATOR_NOT_AVAILABLE if group.is_dead or group.is_stuck else Error.NONE
