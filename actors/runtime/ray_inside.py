"""Everything that we use of Ray's inside, which no release of Ray promises: its private modules, names and words.

No other module of ours names any of it (a test in tests/unit/house). Where a Ray has changed, tests/unit/runtime and
tests/ray say which name broke, and which function here needs it. A function opens with what no public call of Ray's
does. It raises whatever that Ray raises: who can do without the answer catches everything.

Public are what Ray documents: ray.*, ray.util, ray.exceptions, RAY_AUTH_MODE and the like.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import ray

if TYPE_CHECKING:
    from ray.data import Dataset

# --- what it is called: looked up in Ray's own files by the test ---

CALM: Final[Mapping[str, str]] = {
    "RAY_event_stats": "false",  # (true) statistics about the event loops of each process, for Ray's developers
    "RAY_kill_idle_workers_interval_ms": "1000",  # (200)
    "RAY_memory_monitor_refresh_ms": "1000",  # (250)
    "RAY_raylet_check_gc_period_milliseconds": "1000",  # (100)
    "RAY_raylet_report_resources_period_milliseconds": "500",  # (100) to the GCS, which knows of no other node
    "RAY_task_events_report_interval_ms": "5000",  # (1000) for `ray list tasks`
}
"""Settings of a Ray of one node. Of an idle cluster's CPU, half was these, at their defaults (in brackets)."""
NICENESS: Final = "RAY_worker_niceness"
"""The setting that has Ray run workers at a niceness; its default is 15."""
SHORT_FAREWELL: Final[Mapping[str, str]] = {"RAY_task_events_shutdown_flush_timeout_ms": "200"}
"""The setting by which a process that leaves waits for a GCS to take its last figures: five seconds."""
STORE: Final = "RAY_gcs_storage"
FILES: Final = "rocksdb"
STORE_PATH: Final = "RAY_gcs_storage_path"
"""The settings of a head that have its GCS keep its state: in FILES, and where."""
REDIS: Final = "RAY_REDIS_ADDRESS"
"""The variable of a head that has its GCS keep its state in a Redis."""
STORES: Final = (STORE, STORE_PATH, REDIS)
"""Settings that no Ray of one program may have: the next one would start the former actors beside its own."""
RECONNECT: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""The setting of each node by which it ends after so many seconds without a GCS."""
GCS_PORT: Final = "RAY_GCS_SERVER_PORT"
"""The variable that chooses the GCS's port."""
RAYLET_PID: Final = "RAY_RAYLET_PID"
"""The variable that tells a worker its raylet."""
JOB_ID: Final = "RAY_JOB_ID"
"""The one variable in which workers of one raylet differ."""

CORE: Final = ("gcs_server", "raylet")
"""The programs without which nobody can ask a Ray."""
WORKER: Final = "default_worker.py"
"""The script that a worker runs."""
DASHBOARD: Final = "ray/dashboard/dashboard.py"
MINIMAL: Final = "--minimal"
"""The script of the dashboard, and the argument of one that serves nothing."""
HELPERS: Final = ("ray/_private/log_monitor.py", "ray/autoscaler/*/monitor.py")
"""Patterns of the scripts that an embedded Ray has no use for."""
DASHBOARD_AGENT: Final = "ray/dashboard/agent.py"
"""The script of the dashboard's agent on each node."""
DASHBOARD_AGENT_PORTS: Final = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
"""Its ports: a minimal one writes down that it has none."""
RUNTIME_ENV_AGENT: Final = "ray/_private/runtime_env/agent/main.py"
"""The script of the agent that makes runtime environments."""
RUNTIME_ENV_PORT: Final = ("runtime_env_agent_port", "--runtime-env-agent-port")
"""Its port, and the argument that chooses it."""
AGENT_ARGUMENTS: Final = ("--session-dir", "--node-id", "--node-ip-address")
"""The arguments that tell an agent the folder and the name of its ports' files, and where it listens."""
WARM: Final = (
    "ray.actor",
    "ray._common.pydantic_compat",
    "ray._common.usage.usage_lib",
    "ray._private.arrow_serialization",
    "ray._private.async_compat",
    "ray._private.node",
    "ray._private.runtime_env.setup_hook",
    "pyarrow.json",
)
"""Modules that every worker imports, to the end of its connecting."""
THREADS: Final = "ray"
"""The prefix of the names of Ray's own threads in a driver: those that print the cluster's output."""
SOCKETS: Final = "session_*/sockets/*"
"""The place of a Ray's sockets in its folder."""
LONGEST_SOCKET: Final = "session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The longest of their paths there."""
LOGS: Final = "session_latest/logs"

_TAKEN: Final = "The specified port is "
_SLOW: Final = "The current node timed out during startup"


# --- tokens ---


def gives_token() -> bool:
    """True if this process gives Ray a token, and a Ray that it starts asks for one."""
    return bool(ray._raylet.get_authentication_mode() != ray._raylet.AuthenticationMode.DISABLED)


def has_token() -> bool:
    """True if there is a token where Ray looks for it now, in whatever mode. Raises AuthenticationError."""
    return bool(ray._raylet.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))


def knock(address: str) -> None:
    """Ask the GCS at an address for an answer, without joining. Raises AuthenticationError, RayError."""
    ray._raylet.GcsClient(address=address)


def forget_read_token() -> None:
    """Have Ray in this process look for its token again."""
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def read_settings_again() -> None:
    """Have Ray in this process read its settings in the environment: it has done so when it was imported."""
    ray._raylet.Config.initialize("")


# --- nodes and actors ---


def draining_nodes() -> dict[str, int]:
    """The ids of nodes that are drained, and the end of their time (Unix milliseconds; 0: not known).

    Ray's own libraries ask so (Serve, Train and Data).
    """
    found: dict[str, int] = ray._private.state.state.get_draining_nodes()
    return found


def available_by_node() -> dict[str, dict[str, float]]:
    """The resources of each node that nobody has, by the node's id."""
    found: dict[str, dict[str, float]] = ray._private.state.available_resources_per_node()
    return found


def is_placed(actor: ray.actor.ActorHandle) -> bool:
    """True if Ray has found a node for an actor, which else only a dashboard tells."""
    found: dict[str, dict[str, Any]] = ray._private.state.actors(actor._actor_id.hex())
    return not found or bool(found["Address"]["IPAddress"])  # a node alone may only have been asked


def logs_folder() -> str:
    """The folder of this node's logs."""
    return str(ray._private.node.Node.get_logs_dir_path(ray._private.worker.global_worker.node))


# --- a Ray that starts ---


def init(folder: str, **options: Any) -> None:
    """Start a Ray whose session is in `folder`."""
    ray.init(address="local", _temp_dir=folder, **options)


@contextlib.contextmanager
def started_by(start: Callable[..., Any]) -> Iterator[None]:
    """Within the block, each of Ray's processes is started by `start`, whose first argument is Ray's own Popen."""
    before = ray._private.services.ConsolePopen
    ray._private.services.ConsolePopen = partial(start, before)
    try:
        yield
    finally:
        ray._private.services.ConsolePopen = before


@contextlib.contextmanager
def silent_about_the_dashboard() -> Iterator[None]:
    """Within the block, Ray does not say that its dashboard, which is left out, has not started."""
    said = logging.getLogger(ray._private.services.logger.name)
    silenced: str = ray._private.services.start_api_server.__name__

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.funcName != silenced

    said.addFilter(is_of_another)
    try:
        yield
    finally:
        said.removeFilter(is_of_another)


def taken_port(said: str) -> str | None:
    """The port that was taken when a Ray should listen there, of what it said; None if it is something else."""
    found = re.search(rf"{_TAKEN}(\d+)", said)
    return found[1] if found else None


def was_slow(said: str) -> bool:
    """True if a Ray that did not start gave up waiting for its raylet, by its own words."""
    return _SLOW in said


# --- a Ray that ends ---


def let_exceptions_out() -> None:
    """Have a program that ends by an exception not report it to Ray."""
    if sys.excepthook is ray._private.worker.custom_excepthook:
        sys.excepthook = ray._private.worker.normal_excepthook


# --- Ray Data ---


def call_without_limit(dataset: Dataset, call: Callable[[], Any]) -> None:
    """Have `call` called after each evaluation of a dataset that had no limit."""
    from ray.data._internal.execution.execution_callback import ExecutionCallback
    from ray.data._internal.execution.operators.limit_operator import LimitOperator
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

    class Calling(ExecutionCallback):  # type: ignore[misc]
        def after_execution_succeeds(self, executor: StreamingExecutor) -> None:
            if not any(isinstance(step, LimitOperator) for step in executor._topology):
                call()

    dataset.context.custom_execution_callback_classes.append(Calling)
