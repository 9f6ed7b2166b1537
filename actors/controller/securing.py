"""The additions of `coterie up --secure` to a start: TLS, logins, ACLs, and an administrator who may do everything.

Brokers make their certificates themselves (`security/authority`). The administrator's password is drawn here, kept as
every password is, and written once into a file that only the user of the data directory can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from actors.controller import first_users
from actors.controller.metadata.standalone import StandaloneLog
from actors.links.operations import ScramUpsertion
from actors.links.secret import Secrets, read_secrets
from actors.log.files import REAL_WRITER
from actors.runtime.environment import Chance
from actors.runtime.ray_runtime import ClusterError
from actors.security.scram import ScramMechanism
from actors.settings import BrokerConfig, SecurityProtocol
from actors.settings.authorization import STANDARD_AUTHORIZER

ADMIN: Final = "admin"
PROPERTIES: Final = "client.properties"
AUTHORITY: Final = "ca.pem"
_PASSWORD_BYTES: Final = 24
_SUPER_USERS: Final = "super.users"


def secured(settings: Mapping[str, str], host: str | None, port: int | None) -> dict[str, str]:
    """The settings of a secure cluster: those that are given, and what they lack. Raises ClusterError, SettingError."""
    made = {
        "listeners": f"{SecurityProtocol.SASL_SSL}://{_bracketed(host or '')}:{port or 0}",
        "sasl.enabled.mechanisms": ",".join(each.wire_name for each in ScramMechanism),
        "coterie.ssl.own.certificates": "true",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        **settings,
    }
    others = [each.strip() for each in made.get(_SUPER_USERS, "").split(";") if each.strip()]
    made[_SUPER_USERS] = ";".join(dict.fromkeys([*others, f"User:{ADMIN}"]))
    for listener in BrokerConfig.from_mapping(made).listeners:
        if not listener.protocol.tls:
            raise ClusterError(
                f"--secure and listener {listener.name}, which is {listener.protocol}, contradict each other: make it "
                "SASL_SSL or SSL by listener.security.protocol.map, or leave --secure out"
            )
    return made


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Administrator:
    """The administrator of a data directory. There is a new one if the directory has no properties file.

    `folder` is where its private files lie.
    """

    def __init__(self, folder: Path, chance: Chance) -> None:
        self._folder = folder
        self._password = None if self.properties.exists() else chance.randbytes(_PASSWORD_BYTES).hex()
        self._chance = chance

    @property
    def properties(self) -> Path:
        """The file for `--command-config`, with Kafka's names."""
        return self._folder / PROPERTIES

    def users(self) -> list[ScramUpsertion]:
        """The SCRAM credentials of a new one, for each mechanism; empty if there is an administrator already."""
        if self._password is None:
            return []
        texts = [f"{each.wire_name}=[name={ADMIN},password={self._password}]" for each in ScramMechanism]
        return first_users.made(texts, self._chance)

    def write(self, secret_file: Path) -> None:
        """Write what clients need: whom they trust, and how the administrator logs in. The cluster runs by now."""
        authority = write_authority(self._folder, read_secrets(secret_file))
        if self._password is not None:
            _replace(self.properties, _properties(self._password, authority))


def write_authority(folder: Path, secrets: Secrets) -> Path:
    """Write whom clients have to trust where brokers make their certificates themselves; the file. Raises OSError."""
    from actors.security.authority import CLIENTS, Authority, trusting  # only who has TLS needs what it imports

    path = folder / AUTHORITY
    _replace(path, trusting(*(Authority(secret, CLIENTS) for secret in secrets.known)).pem)
    return path


def _properties(password: str, authority: Path) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = (
        f"security.protocol={SecurityProtocol.SASL_SSL}",
        f"sasl.mechanism={ScramMechanism.SHA_512.wire_name}",
        f'sasl.jaas.config={module} required username="{ADMIN}" password="{password}";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority}",
    )
    return "".join(f"{line}\n" for line in lines)


def _replace(path: Path, text: str) -> None:
    REAL_WRITER.write_atomically(path, text.encode())


def leave_users(folder: Path, users: list[ScramUpsertion], administrator: Administrator | None, chance: Chance) -> None:
    """Have first users and a new administrator in the metadata log before any broker runs.

    A cluster that was not secure until now gets its administrator, too. It gets no other users: AddScramError is raised
    for those.
    """
    path = first_users.log_path(folder)
    admins = administrator.users() if administrator is not None else []
    if users or (admins and not path.exists()):
        first_users.leave(folder, [*users, *admins])
    elif admins:
        log = StandaloneLog(path)
        try:
            first_users.set_offline(log, admins, chance)
        finally:
            log.close()
