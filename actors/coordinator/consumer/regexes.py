"""Subscriptions by regular expressions: when those of a group are resolved to topics, and what becomes of the result.

Expressions are RE2's, which takes linear time, and match whole names. All of a group are resolved together, outside the
shard's turn: the host asks for what there is to resolve (`messages.ResolutionsRequest`), does it on an image of the
topics, and hands the result in as a request. A heartbeat never waits for it; it sees what was resolved last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from actors.coordinator.consumer.expressions import IsLate, error_of, forget_compiled, matched
from actors.coordinator.consumer.membership import look_at_topics
from actors.coordinator.consumer.messages import Noted, Refusal, Resolution, ResolvedRequest
from actors.coordinator.consumer.operations import Answer, Cause, Draft, Operation
from actors.coordinator.consumer.records import ResolvedRegex
from actors.coordinator.consumer.values import Resolved
from actors.coordinator.errors import Error
from actors.coordinator.turn import Token

PAUSE_MS: Final = 10_000
"""The least time between two resolutions of a group."""

MayRead = Callable[[str], bool]
"""Tells whether the member that a resolution began with may see a topic."""


def _never() -> bool:
    return False


def resolve(resolution: Resolution, may_read: MayRead, is_late: IsLate = _never) -> ResolvedRequest:
    """Find the topics that each expression matches. It may be called anywhere, for nothing changes meanwhile."""
    names = [name for name in resolution.topics.names() if may_read(name)]
    matches: dict[str, frozenset[str]] = {}
    for regex in resolution.regexes:
        found = matched(regex, names, is_late)
        if found is None:
            break
        matches[regex] = found
    forget_compiled()
    made = matches if len(matches) == len(resolution.regexes) else None
    return ResolvedRequest(resolution.group_id, made, resolution.topics.version, resolution.began_ms)


def check(draft: Draft, member_id: str, regex: str | None) -> Refusal | None:
    """The reason why a member may not have an expression, or None. One that others have is not looked at again."""
    member = draft.state.metadata.get(member_id)
    if not regex or regex in draft.state.regexes or (member is not None and member.regex == regex):
        return None
    error = error_of(regex)
    return Refusal(Error.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex: {error}") if error else None


def must_resolve(draft: Draft) -> bool:
    """True if the group's expressions are to be resolved, as far as records tell."""
    state = draft.state
    if not state.regexes:
        return False
    last = next(iter(state.resolved.values()), None)
    if last is None:
        return True
    age_ms = draft.now.wall_ms - last.timestamp_ms  # below 0 if the clock has been set back, or was another one
    if 0 <= age_ms <= PAUSE_MS:
        return False
    is_old = last.version < draft.topics_made_at or not 0 <= age_ms < draft.regex_refresh_ms
    return is_old or state.regexes.keys() != state.resolved.keys()


class NoteResolved(Operation):
    """The expressions of a group have been resolved. The next heartbeat computes the target, if topics have changed."""

    def __init__(self, token: Token, request: ResolvedRequest) -> None:
        self.token = token
        self._request = request

    def answer_of(self, refusal: Refusal) -> Noted:
        return Noted(refusal.error)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        state, request = draft.state, self._request
        has_changed = False
        for regex, topics in sorted((request.topics or {}).items()):
            if regex not in state.regexes:
                continue
            older = state.resolved.get(regex)
            if older is not None and request.version < older.version:
                continue  # it took so long that another one has come before it
            has_changed |= topics != (frozenset() if older is None else older.topics)
            draft.write(ResolvedRegex(draft.group_id, regex, Resolved(topics, request.version, request.began_ms)))
        if draft.changes:
            draft.must_look_at_topics = True
            look_at_topics(draft, Cause("topics matched by an expression changed", "", None), must_raise=has_changed)
        return Noted()
