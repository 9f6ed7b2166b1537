"""The secret of Spark's own connections: its file, and what is set for it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from spark_bridge.encryption import encrypting, main, what_is_wrong, write_secret
from spark_bridge.spark_config import JVM_OPTIONS, SessionError, application, spark_configs

GOOD = {"app_name": "a", "num_executors": 2, "executor_cores": 1, "executor_memory": "1g"}


@pytest.mark.conformance("XE-52")
def test_the_file_has_a_new_secret_for_its_owner_alone(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    before = os.umask(0)
    try:
        assert main([str(one)]) == 0
    finally:
        os.umask(before)
    write_secret(two)
    assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert one.read_bytes()[:19] == two.read_bytes()[:19] == b"HDTS\0\0\1\x0bsparkCookie"
    assert one.read_bytes()[19] == len(one.read_bytes()[20:]) == 64
    assert one.read_bytes() != two.read_bytes()
    assert what_is_wrong(str(one)) is None


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").write_text("precious")
    assert main([str(tmp_path / "one")]) == 1
    assert "File exists" in capsys.readouterr().err
    assert (tmp_path / "one").read_text() == "precious"
    assert main([]) == 2


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert what_is_wrong(str(path)) == "No such file or directory"
    path.write_text("ab" * 32)
    path.chmod(0o644)
    assert "chmod 600" in str(what_is_wrong(str(path)))
    path.chmod(0o600)
    assert "-m spark_bridge.encryption FILE" in str(what_is_wrong(str(path)))


@pytest.mark.conformance("XE-52")
def test_each_jvm_is_told_the_files_path_and_no_other_way_is_left() -> None:
    own = encrypting("/etc/spark-secret")
    configs = spark_configs(application(**GOOD, configs={}), "", {}, *own)
    assert all("-Dhadoop.token.files=/etc/spark-secret" in configs[key].split() for key in JVM_OPTIONS)
    assert configs["spark.authenticate"] == configs["spark.network.crypto.enabled"] == "true"
    assert configs["spark.network.crypto.saslFallback"] == "false"


@pytest.mark.conformance("XE-52")
def test_nobody_knows_what_stands_in_the_place_of_the_secret() -> None:
    """A JVM on a node without the file goes by it."""
    one, two = [encrypting("/etc/spark-secret")[0]["spark.authenticate.secret"] for _ in range(2)]
    assert one != two
    assert len(one) > 64


@pytest.mark.parametrize("path", ["secret", "/etc/my secret", "/etc/a,b", "/etc/$HOME"])
def test_a_path_that_an_option_would_cut_is_refused(path: str) -> None:
    with pytest.raises(SessionError, match="must be an absolute path of letters"):
        encrypting(path)


@pytest.mark.parametrize("key", ["spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"])
def test_nothing_is_encrypted_by_halves(key: str) -> None:
    with pytest.raises(SessionError, match="encrypted decides it"):
        application(**GOOD, configs={key: "true"})


@pytest.mark.conformance("XE-52", "XE-53")
def test_neither_encryption_nor_pages_are_there_unless_asked_for() -> None:
    configs = spark_configs(application(**GOOD, configs={}), "", {})
    assert configs["spark.ui.enabled"] == "false"
    assert not [key for key in configs if "authenticate" in key or "crypt" in key]
