"""Consumer groups as a type of group (KIP-848): how a shard carries out their requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actors.coordinator.assignors import ASSIGNORS
from actors.coordinator.assignors.slices import SlicedAssignor
from actors.coordinator.consumer.describe import Describe
from actors.coordinator.consumer.executor import Executor
from actors.coordinator.consumer.group import ConsumerGroup, Rest
from actors.coordinator.consumer.heartbeat import Heartbeat, is_at_rest, refusal_of
from actors.coordinator.consumer.leaving import Leave, Tidy
from actors.coordinator.consumer.membership import new_member_id
from actors.coordinator.consumer.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Noted,
    NoteSettingsRequest,
    NoteTopicsRequest,
    Refusal,
    ResolutionsRequest,
    ResolvedRequest,
)
from actors.coordinator.consumer.operations import Cluster, Draft
from actors.coordinator.consumer.records import CONSUMER_RECORDS
from actors.coordinator.consumer.regexes import NoteResolved
from actors.coordinator.consumer.replaced import NoUpgrades, Replaced, ReplacedEmpty, Upgrades, no_consumer_group
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.validation import check
from actors.coordinator.consumer.values import CONSUMER, JOIN_EPOCH
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.types import Requests
from actors.coordinator.turn import Now, Token

DEFAULTS = ConsumerSettings()


class ConsumerOperations:
    """Carries out what one shard does for consumer groups."""

    def __init__(self, runtime: GroupRuntime, cluster: Cluster) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self.executor = self._executor = Executor(runtime, self._cluster)
        self._describe = Describe(runtime, cluster)
        self.upgrades: Upgrades = NoUpgrades()
        self.requests = Requests(
            handlers={
                ConsumerGroupHeartbeatRequest: self.heartbeat,
                ConsumerGroupDescribeRequest: self._describe.handle,
                NoteTopicsRequest: self.note_topics,
                NoteSettingsRequest: self.note_settings,
                ResolutionsRequest: self._executor.resolutions.handle,
                ResolvedRequest: self.note_resolved,
            },
            entry_errors={ConsumerGroupHeartbeatRequest: self._entry_error},
        )

    def resume(self, group_id: str, persisted: ConsumerState, now: Now) -> None:
        """Let a group that was loaded go on. Its members have a whole session to find this shard."""
        group = self._runtime.groups[group_id] = self._new_group(group_id)
        for member_id in persisted.metadata:
            self._executor.timing.watch(group, member_id, now)
        if any(persisted.leftovers()):
            self._executor.submit(group, Tidy(), now)

    def forget(self) -> None:
        """Topics are to be told anew: others have served the groups meanwhile, who knew newer ones."""
        self._cluster.forget_topics()
        self._executor.resolutions.forget()
        self._describe.forget()

    def _new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, lambda: self._durable(group_id), self._cluster)

    def _durable(self, group_id: str) -> ConsumerState | None:
        found = self._runtime.durable.get(group_id)
        return found.persisted if found is not None and isinstance(found.persisted, ConsumerState) else None

    # -- ConsumerGroupHeartbeat

    def _check(self, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
        return check(request, self._cluster.settings.assignors)

    def _entry_error(self, request: ConsumerGroupHeartbeatRequest) -> Error:
        refusal = self._check(request)
        return Error.NONE if refusal is None else Error(refusal.error)

    def heartbeat(self, token: Token, request: ConsumerGroupHeartbeatRequest, now: Now) -> None:
        """Answer a heartbeat that changes nothing; have any other one carried out."""
        runtime = self._runtime
        group = runtime.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.is_at_rest(now):
            rest = group.rests.get(request.member_id)
            if rest is None or rest.request is not request or rest.settings is not self._cluster.settings:
                rest = self._rest(group, request)
            if rest is not None:
                runtime.timers.arm(rest.session, now.monotonic_ms + rest.session_timeout_ms)
                runtime.replies.append((token, rest.response))
                return
        self._handle(token, request, now)

    def _rest(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Rest | None:
        """Note what the heartbeat of a member at rest does; None if the member is not."""
        if not is_at_rest(group.state, request):
            return None
        settings = self._cluster.settings
        own = settings.of_group(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            error_code=Error.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=own.heartbeat_interval_ms,
        )
        session = self._executor.timing.of(group, request.member_id).session
        rest = group.rests[request.member_id] = Rest(request, settings, session, own.session_timeout_ms, response)
        return rest

    def _handle(self, token: Token, request: ConsumerGroupHeartbeatRequest, now: Now) -> None:
        if request.needs_member_id:
            request = replace(request, member_id=new_member_id(self._runtime.new_id))
        operation = Leave(token, request) if request.is_leave else Heartbeat(token, request)
        refusal = self._check(request)
        self._runtime.park(token, request)
        group = self._find(token, request, now) if refusal is None else refusal
        if isinstance(group, Refusal):
            self._executor.answer(operation, group)
        elif group is not None:
            self._executor.submit(group, operation, now)

    def _find(self, token: Token, request: ConsumerGroupHeartbeatRequest, now: Now) -> ConsumerGroup | Refusal | None:
        """The group of a heartbeat. A member that joins makes it, or has it take the place of one of another type.

        None: the heartbeat waits until more is known of that one.
        """
        if self._cluster.topics is None:
            return Refusal(Error.COORDINATOR_LOAD_IN_PROGRESS, "Topics are not known yet.")
        groups, group_id = self._runtime.groups, request.group_id
        found = groups.get(group_id)
        if found is not None and found.is_dead:
            return Refusal(Error.COORDINATOR_NOT_AVAILABLE, "The group is being deleted.")
        if isinstance(found, ConsumerGroup):
            if not found.is_stuck:
                return found
            self._note_sign_of_life(found, request, now)
            return Refusal(Error.COORDINATOR_NOT_AVAILABLE, "The group's last change has not committed yet.")
        if request.member_epoch != JOIN_EPOCH:
            return no_consumer_group(group_id)
        if found is None:
            groups[group_id] = group = self._new_group(group_id)
            return group
        replaced = ReplacedEmpty(found) if found.is_empty else self.upgrades.replacing(found, token, now)
        return replaced if replaced is None or isinstance(replaced, Refusal) else self._take_place(replaced, now)

    def _take_place(self, replaced: Replaced, now: Now) -> ConsumerGroup:
        group = self._new_group(replaced.group.group_id)
        group.replaced = replaced
        self._runtime.groups[group.group_id] = group
        for member_id, member in replaced.state.metadata.items():
            assert member.classic is not None
            timeout_ms, until_ms = member.classic.session_timeout_ms, replaced.sessions.get(member_id)
            self._executor.timing.took_over(group, member_id, timeout_ms, until_ms, now)
        return group

    def _note_sign_of_life(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now: Now) -> None:
        """A member is not expelled because nothing commits. A request to be refused anyway is no sign of life."""
        if request.is_leave or request.member_id not in group.state.metadata:
            return
        if refusal_of(Draft(group.group_id, group.state, self._cluster, now), request) is None:
            self._executor.timing.heard(group, request.member_id, now)

    # -- what the host tells

    def note_topics(self, token: Token, request: NoteTopicsRequest, now: Now) -> None:
        """Have groups look at topics that have changed, with their next heartbeats."""
        is_first = self._cluster.topics is None
        self._cluster.note_topics(request.topics)
        for group in list(self._runtime.groups.values()) if is_first else ():
            if isinstance(group, ConsumerGroup):
                self._executor.proceed(group, now)
        self._runtime.replies.append((token, Noted()))

    def note_resolved(self, token: Token, request: ResolvedRequest, now: Now) -> None:
        """Take the topics that a group's regular expressions match. A group that is gone does not need them."""
        group = self._runtime.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup) or group.is_dead:
            self._runtime.replies.append((token, Noted()))
            return
        group.resolving_until_ms = 0
        self._runtime.park(token, request)
        self._executor.submit(group, NoteResolved(token, request), now)

    def note_settings(self, token: Token, request: NoteSettingsRequest, now: Now) -> None:
        """Go by other settings from now on. Sessions that have begun end when they would have.

        Before the first topics nobody was heard: those that were loaded have a whole session by these settings.
        """
        self._cluster.settings = request.settings
        for group in list(self._runtime.groups.values()) if self._cluster.topics is None else ():
            if isinstance(group, ConsumerGroup):
                for member_id in group.state.metadata:
                    self._executor.timing.watch(group, member_id, now)
        self._runtime.replies.append((token, Noted()))


class Consumer:
    """The type. `assignors` are those that there are; `settings`, which a host may change, say which are configured."""

    name = CONSUMER
    record_types = CONSUMER_RECORDS

    def __init__(self, assignors: Sequence[SlicedAssignor] = ASSIGNORS, settings: ConsumerSettings = DEFAULTS) -> None:
        self._assignors = {each.name: each for each in assignors}
        self._settings = settings

    def operations(self, runtime: GroupRuntime) -> ConsumerOperations:
        """Make what a new shard does for consumer groups."""
        return ConsumerOperations(runtime, Cluster(self._assignors, settings=self._settings))
