"""A pool and a Ray Data job at a broker that asks for a login: credentials go by reference, and stand nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.client import TopicPartition
from actors.members.pool import ConsumerPool, PoolError
from tests.ray.support import words_of_family
from tests.support.authority import Authority
from tests.support.secure_broker import SecureBroker, secure_broker

PASSWORD = "swordfish-of-the-pool"


@pytest.fixture
def broker(embedded_ray: None, tmp_path: Path) -> Iterator[SecureBroker]:
    authority = Authority(tmp_path)
    path = tmp_path / "password"
    path.touch(0o600)
    path.write_text(PASSWORD)
    with secure_broker(authority.server("127.0.0.1"), {"alice": PASSWORD}) as made:
        made.topic("t")
        yield made


@pytest.fixture
def settings(broker: SecureBroker, tmp_path: Path) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(tmp_path / "authority.pem"),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_password_file": str(tmp_path / "password"),
    }


def _seen_by_others() -> str:
    """The command lines and environments of this run's processes, and Ray's logs."""
    found = words_of_family()
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    found += [path.read_text(errors="replace") for path in logs.rglob("*") if path.is_file()]
    return "\n".join(found)


@pytest.mark.conformance("XE-35", "XG-14")
def test_the_members_of_a_pool_log_in_by_reference(broker: SecureBroker, settings: dict[str, Any]) -> None:
    broker.append("t", 0, b"a", b"b", b"c")
    with ConsumerPool("t", "g", lambda record: None, 1, **settings) as pool:
        assert pool.wait(lambda: pool.handled() == 3, 150)
        pool.wait(lambda: broker.committed.get(TopicPartition("t", 0)) == 3, 150)
        seen = _seen_by_others()
    assert PASSWORD not in seen
    assert broker.logins >= 2


@pytest.mark.conformance("XE-35")
def test_a_reference_that_leads_nowhere_is_named_with_the_machine(
    broker: SecureBroker, settings: dict[str, Any], tmp_path: Path
) -> None:
    nowhere = settings | {"sasl_password_file": str(tmp_path / "nowhere")}
    with ConsumerPool("t", "g", lambda record: None, 1, **nowhere) as pool:
        with pytest.raises(PoolError, match=r"sasl_password_file=.*nowhere: No such file or directory on "):
            pool.wait(timeout_s=150)


@pytest.mark.parametrize(
    ("topic", "changes", "said"),
    [
        ("t", {"bootstrap_servers": "127.0.0.1:1"}, "no broker can be reached; check bootstrap_servers"),
        ("t", {"security_protocol": "PLAINTEXT"}, r"TLS (here: set security_protocol|\(security_protocol=SSL\))"),
        ("t", {"security_protocol": "SSL"}, r"it may expect a login \(security_protocol=SASL_SSL"),
        ("t", {"sasl_plain_username": "bob"}, "logging in as 'bob' by SCRAM-SHA-512"),
        ("typo", {}, "there is no topic 'typo'"),
        ("a/b", {}, "topic name 'a/b' is illegal"),
    ],
)
def test_a_pool_that_gets_no_records_ran_without_an_error(
    broker: SecureBroker, settings: dict[str, Any], topic: str, changes: dict[str, str], said: str
) -> None:
    """Its members were Running, `wait` waited, and `stop` took a minute."""
    broker.append("t", 0, b"a")
    wrong = settings | changes
    if changes.get("security_protocol"):
        wrong = {name: value for name, value in wrong.items() if not name.startswith("sasl")}
    if changes.get("security_protocol") == "PLAINTEXT":
        del wrong["ssl_cafile"]
    with pytest.raises(PoolError, match=said):
        ConsumerPool(topic, "g", lambda record: None, 1, **wrong)
