"""AlterUserScramCredentials: passwords are set and forgotten (KIP-554), decided by the controller.

The salted password that comes is worth as much as the password. What is kept is made of it here, and it goes nowhere
else.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from actors.broker.connection import Connection
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import AlteredScram, AlterScram, ScramDeletion, ScramUpsertion, UserOutcome
from actors.security.acl import is_loopback
from actors.security.add_scram import SALT_BYTES_MAX, name_problem
from actors.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential, ScramMechanism
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


def handle(context: HandlerContext, request: Request) -> AlterUserScramCredentialsResponse | None:
    """Refused users are answered with those that the controller has answered, one result each."""
    m: AlterUserScramCredentialsRequest = request.message
    refused = _refused(m)
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


def _refused(m: AlterUserScramCredentialsRequest) -> dict[str, UserOutcome]:
    """The users whose change cannot be carried out, whoever they are, and why."""
    asked = _all(m)
    times = Counter(each.name for each in asked)
    wrong: dict[str, tuple[ErrorCode, str]] = {}
    for each in asked:
        text = name_problem(each.name)
        problem = None if text is None else (ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
        if times[each.name] > 1:
            problem = (ErrorCode.DUPLICATE_RESOURCE, "a user may be named once in a request")
        elif problem is None and each.mechanism not in _MECHANISMS:
            problem = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "the mechanism is 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)")
        elif problem is None and isinstance(each, Upsertion):
            problem = _wrong_credential(each)
        if problem is not None:
            wrong[each.name] = problem
    return {name: UserOutcome(name, code, text) for name, (code, text) in wrong.items()}


def _all(m: AlterUserScramCredentialsRequest) -> list[Deletion | Upsertion]:
    return [*m.deletions, *m.upsertions]


def _wrong_credential(asked: Upsertion) -> tuple[ErrorCode, str] | None:
    text = None
    if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_MAX:
        text = f"iterations must be within {ITERATIONS_MIN} and {ITERATIONS_MAX}"
    elif not 1 <= len(asked.salt) <= SALT_BYTES_MAX:
        text = f"a salt has 1 to {SALT_BYTES_MAX} bytes"
    elif len(asked.salted_password) != (size := _MECHANISMS[asked.mechanism].digest_bytes):
        text = f"a salted password of this mechanism has {size} bytes"
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
