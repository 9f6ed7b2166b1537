"""AlterUserScramCredentials: passwords are set and forgotten (KIP-554), decided by the controller.

The salted password that comes is worth as much as the password. The stored credential is made of it here, and it goes
nowhere else.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from typing import Final

from actors.broker.connections.connection import Connection
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import AlteredScram, AlterScram, ScramDeletion, ScramUpsertion, UserOutcome
from actors.security.acl import is_loopback
from actors.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES_MAX, ScramCredential, ScramMechanism
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ApiMessage,
)

log = logging.getLogger(__name__)

API = AlterUserScramCredentialsRequest
VERSIONS = (0, 0)

_MECHANISMS: Final = {each.code: each for each in ScramMechanism}

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
_Problem = tuple[ErrorCode, str]

_EMPTY_NAME: Final = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user's name cannot be empty")
_TWICE: Final = (ErrorCode.DUPLICATE_RESOURCE, "a user may be named once in a request")
_NO_SUCH: Final = (ErrorCode.RESOURCE_NOT_FOUND, "the user has no credential for this mechanism")
_MECHANISM: Final = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "the mechanism is 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)")
# Kafka fails at making a key of it, and says no more than that.
_NO_PASSWORD: Final = (ErrorCode.UNKNOWN_SERVER_ERROR, "a salted password cannot be empty")


def handle(context: HandlerContext, request: Request) -> AlterUserScramCredentialsResponse | None:
    """Refused users are answered with those that the controller has answered, one result each."""
    m: AlterUserScramCredentialsRequest = request.message
    refused = _refused(m, context.broker.metadata.scram)
    deletions = tuple(ScramDeletion(d.name, d.mechanism) for d in m.deletions if d.name not in refused)
    upsertions = tuple(_made(u) for u in m.upsertions if u.name not in refused)
    if upsertions and _may_be_overheard(context, request.connection):
        users = ", ".join(ascii(each.user) for each in upsertions)
        log.warning("the password of %s came from %s without encryption", users, request.connection.peer)
    for upsertion in m.upsertions:
        upsertion.salted_password = b""
    if not deletions and not upsertions:
        return AlterUserScramCredentialsResponse(results=[_result(each) for each in refused.values()])

    def answer(altered: AlteredScram) -> AlterUserScramCredentialsResponse:
        return AlterUserScramCredentialsResponse(
            results=[_result(each) for each in (*refused.values(), *altered.users)]
        )

    forward(context.broker, request, AlterScram(deletions, upsertions), answer, failed)
    return None


def _may_be_overheard(context: HandlerContext, connection: Connection) -> bool:
    tls = any(each.name == connection.listener and each.protocol.tls for each in context.broker.config.listeners)
    return not tls and not is_loopback(connection.peer)


def _refused(m: AlterUserScramCredentialsRequest, known: Collection[tuple[str, int]]) -> dict[str, UserOutcome]:
    """The users whose change cannot be carried out, and why: the first reason that Kafka finds."""
    asked = _all(m)
    times = Counter(each.name for each in asked)
    wrong: dict[str, _Problem] = {}
    right: set[str] = set()
    for each in asked:
        if each.name in wrong:
            continue
        problem = _TWICE if each.name in right else _problem(each)
        if problem is None and times[each.name] > 1 and _is_missing(each, known):
            problem = _NO_SUCH  # alone, it is left to the controller
        if problem is None:
            right.add(each.name)
        else:
            wrong[each.name] = problem
    for upsertion in m.upsertions:
        if not upsertion.salted_password:
            wrong.setdefault(upsertion.name, _NO_PASSWORD)
    return {name: UserOutcome(name, code, text) for name, (code, text) in wrong.items()}


def _is_missing(asked: Deletion | Upsertion, known: Collection[tuple[str, int]]) -> bool:
    return isinstance(asked, Deletion) and (asked.name, asked.mechanism) not in known


def _all(m: AlterUserScramCredentialsRequest) -> list[Deletion | Upsertion]:
    return [*m.deletions, *m.upsertions]


def _problem(asked: Deletion | Upsertion) -> _Problem | None:
    if not asked.name:
        return _EMPTY_NAME
    if asked.mechanism not in _MECHANISMS:
        return _MECHANISM
    return _wrong_credential(asked) if isinstance(asked, Upsertion) else None


def _wrong_credential(asked: Upsertion) -> _Problem | None:
    """Salted passwords of any length are taken, though none but the mechanism's is one of a password."""
    text = None
    if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_MAX:
        text = f"iterations must be within {ITERATIONS_MIN} and {ITERATIONS_MAX}"
    elif len(asked.salt) > SALT_BYTES_MAX:
        text = f"a salt has at most {SALT_BYTES_MAX} bytes"
    return None if text is None else (ErrorCode.UNACCEPTABLE_CREDENTIAL, text)


def _made(asked: Upsertion) -> ScramUpsertion:
    mechanism = _MECHANISMS[asked.mechanism]
    made = ScramCredential.of(mechanism, asked.salted_password, asked.salt, asked.iterations)
    return ScramUpsertion(asked.name, asked.mechanism, made.salt, made.stored_key, made.server_key, made.iterations)


def _result(outcome: UserOutcome) -> Result:
    return Result(user=outcome.user, error_code=outcome.error_code, error_message=outcome.error_message)


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> AlterUserScramCredentialsResponse:
    """The whole request refused: each user once, by name."""
    assert isinstance(message, AlterUserScramCredentialsRequest)
    names = sorted({each.name for each in _all(message)})
    return AlterUserScramCredentialsResponse(
        results=[Result(user=name, error_code=code, error_message=text) for name in names]
    )
