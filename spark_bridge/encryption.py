"""Spark's own connections, authenticated and encrypted: calls, blocks and what is spilled to disks.

All of an application's JVMs have one secret. Spark takes it from a setting, which stands on command lines; from a
variable, which Ray would have to carry; or from Hadoop's credentials of the user, as it does on YARN. Those come from a
file that each JVM reads by itself, whose path may be known. RayDP does not know of any of this, and needs one repair:
`settle`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.runtime.private import private
from spark_bridge.spark_config import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY: Final = b"sparkCookie"  # under which Spark looks among the credentials
_FORM: Final = b"HDTS\0"  # of Hadoop's files of credentials, version 0, which `hadoop.token.files` names
_SECRET_BYTES: Final = 32
_ELSEWHERE: Final = "spark.authenticate.secret"
"""Spark's driver wants this setting, and looks among the credentials first.

It is random, for a JVM that has no such file goes by it: what anybody could know would open its ports to strangers.
"""
_ROOT: Final = 0
_TOO_MANY: Final = stat.S_IWGRP | stat.S_IRWXO  # Kubernetes has a group read it, of the pod's own
_PATH: Final = re.compile(r"/[\w./+-]+")


def encrypting(path: str) -> tuple[dict[str, str], str]:
    """The settings of Spark, and the option of each of its JVMs, for the secret in this file. Raises SessionError."""
    if _PATH.fullmatch(path) is None:
        raise SessionError(
            f"encrypted={path!r} must be an absolute path of letters, digits and ./+-_, as it stands in an option of "
            "JVMs (of encrypted=True it is in TMPDIR)"
        )
    settings = {
        "spark.authenticate": "true",
        _ELSEWHERE: f"it-is-in-hadoop.token.files-{os.urandom(_SECRET_BYTES).hex()}",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.authEngineVersion": "2",
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
        "spark.io.encryption.keySizeBits": "256",
    }
    return settings, f"-Dhadoop.token.files={path}"


def write_secret(path: Path) -> None:
    """Make a file with a new secret, which only this user can read. Raises FileExistsError."""
    secret = os.urandom(_SECRET_BYTES).hex().encode()
    no_tokens, one_secret = b"\0", b"\1"
    with open(path, "xb", opener=private) as file:
        file.write(_FORM + no_tokens + one_secret + _text(_KEY) + _text(secret))


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(1, "big") + text  # of up to 127 bytes


def what_is_wrong(path: str) -> str | None:
    """The reason why a file here cannot be the secret's; None if it can. Runs on each Ray node."""
    try:
        with open(path, "rb") as file:
            found, head = os.fstat(file.fileno()), file.read(len(_FORM) - 1)
    except OSError as error:
        return error.strerror or str(error)
    if found.st_uid not in (os.geteuid(), _ROOT) or found.st_mode & _TOO_MANY:
        return "it must be this user's or root's, and others may not read it (chmod 600)"
    made = f"make it with `{Path(sys.executable).name} -m spark_bridge.encryption FILE`"
    return None if head == _FORM[:-1] else f"it is no file of credentials: {made}"


def settle(spark: SparkSession) -> None:
    """Have driver and executors mean the same application. To be called before the first job. Raises SessionError.

    RayDP's executors have the id of its master, and its driver makes one up. Spark hands out blocks only to the
    application of the same id, so the driver takes the executors' before it serves any.
    """
    jvm = spark._jvm
    assert jvm is not None, "a session on RayDP has one"
    environment = jvm.org.apache.spark.SparkEnv.get()
    if environment.securityManager().getSecretKey() == environment.conf().get(_ELSEWHERE):
        raise SessionError("Spark has not read the secret of its connections")
    application = _id_of_executors(spark)
    environment.conf().set("spark.app.id", application)
    blocks = environment.blockManager()
    blocks.blockTransferService().close()
    blocks.initialize(application)


def _id_of_executors(spark: SparkSession) -> str:
    backend = spark.sparkContext._jsc.sc().schedulerBackend()
    (field,) = (each for each in backend.getClass().getDeclaredFields() if each.getName().endswith("$appId"))
    field.setAccessible(True)
    return str(field.get(backend).get())


def main(arguments: list[str]) -> int:
    """Make the file that the argument names; the exit code is 1 if that is not possible."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m spark_bridge.encryption FILE\n")
        return 2
    try:
        write_secret(Path(arguments[0]))
    except OSError as error:
        sys.stderr.write(f"{arguments[0]}: {error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
