"""Real Prometheus beside a cluster: started on a free port of loopback, asked by its HTTP API, ended by its pid."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compat.peers import free_ports
from tests.compat.processes import end_process, spawn
from tests.compat.support import wait_until


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running one."""

    url: str

    def get(self, path: str, **arguments: str) -> Any:
        """The data of an answer of its API. Fails with its error."""
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from error
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found


def metrics_url(data_dir: Path) -> str:
    """The address of the Monitor's metrics, as its log says; of the last Monitor that has begun."""
    return _served(data_dir, "metrics are")


def console_url(data_dir: Path) -> str:
    """The address of the Monitor's console; ends with a slash."""
    return _served(data_dir, "the console is")


def _served(data_dir: Path, what: str) -> str:
    def said() -> str | None:
        log = data_dir / "logs" / "monitor.log"
        found = re.findall(rf"{what} at (http://[^\s\"]+)", log.read_text()) if log.exists() else []
        return found[-1] if found else None

    return str(wait_until(said, what=f"a Monitor whose log says where {what}"))


@contextlib.contextmanager
def prometheus(folder: Path, target: str, rules: Path) -> Iterator[Prometheus]:
    """Run Debian's Prometheus, which scrapes `target` each second. Skips the test where it is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    (port,) = free_ports(1)
    address = urllib.parse.urlsplit(target)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "coterie", "static_configs": [{"targets": [address.netloc]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log:
        process = spawn(command, log)
        try:
            running = Prometheus(f"http://127.0.0.1:{port}")
            wait_until(lambda: _is_ready(running, process), what="Prometheus is ready")
            yield running
        finally:
            end_process(process)


def _is_ready(running: Prometheus, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Prometheus has ended"
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{running.url}/-/ready", timeout=5) as answer:
        return bool(answer.status == 200)
    return False
