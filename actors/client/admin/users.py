"""The methods of `Admin` for users and their passwords, on the event loop (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.client.admin.brokers import Brokers, Outcomes, outcome_of_change
from actors.client.admin.types import ScramDeletion, ScramUpsertion
from actors.client.error_codes import error_for, is_retriable
from actors.runtime.environment import Chance
from actors.security.scram import SALT_BYTES, ScramMechanism, salted_password
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
_BY_CODE = {each.code: each.wire_name for each in ScramMechanism}


class Users:
    """Describes and changes credentials. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def describe(self, users: Sequence[str] | None, deadline: int) -> dict[str, dict[str, int]]:
        """The iterations of each mechanism of these users, or of all. A user who has none is left out."""
        named = None if users is None else [DescribeUserScramCredentialsRequest.UserName(name=each) for each in users]

        async def attempt() -> dict[str, dict[str, int]]:
            response = await self._brokers.ask_controller(
                lambda timeout: DescribeUserScramCredentialsRequest(users=named), deadline
            )
            if response.error_code:
                raise error_for(response.error_code, "describing users", response.error_message)
            found = {}
            for result in response.results:
                if result.error_code not in (0, ErrorCode.RESOURCE_NOT_FOUND):
                    raise error_for(result.error_code, f"describing user {result.user!r}", result.error_message)
                infos = {_name(info.mechanism): info.iterations for info in result.credential_infos}
                if not result.error_code:
                    found[result.user] = infos
            return found

        return await self._brokers.again(attempt, deadline)

    async def alter(
        self, upsertions: Iterable[Upsertion], deletions: Iterable[Deletion], deadline: int
    ) -> Outcomes[str]:
        """Set and forget credentials. One outcome for each user."""
        request = AlterUserScramCredentialsRequest(upsertions=list(upsertions), deletions=list(deletions))

        async def attempt() -> Outcomes[str]:
            response = await self._brokers.ask_controller(lambda timeout: request, deadline)
            for result in response.results:
                if is_retriable(result.error_code):
                    raise error_for(result.error_code, f"altering user {result.user!r}", result.error_message)
            return {
                each.user: outcome_of_change(each.error_code, f"altering user {each.user!r}", each.error_message)
                for each in response.results
            }

        return await self._brokers.again(attempt, deadline)


def upsertion(asked: ScramUpsertion, chance: Chance) -> Upsertion:
    """The request's entry for a password: it is salted here. Takes milliseconds."""
    salt = chance.randbytes(SALT_BYTES)
    return Upsertion(
        name=asked.user,
        mechanism=asked.mechanism.code,
        iterations=asked.iterations,
        salt=salt,
        salted_password=salted_password(asked.mechanism, asked.password.reveal(), salt, asked.iterations),
    )


def deletion(asked: ScramDeletion) -> Deletion:
    """The request's entry that has a credential forgotten."""
    return Deletion(name=asked.user, mechanism=asked.mechanism.code)


def _name(mechanism: int) -> str:
    return _BY_CODE.get(mechanism, f"mechanism {mechanism}")
