"""`coterie pools`: its requests to pools, its output, and its words when something is missing. No Ray."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from actors.cli import calls
from actors.cli.main import cli
from actors.cli.pool_lines import Reader, text_line
from actors.client.errors import SaslAuthenticationError
from actors.members.autoscale import Autoscale
from actors.members.deployment.description import PoolDescription, PoolState, RolloutStatus
from actors.members.logs.journal import Cursor, MemberLine
from actors.members.pool import PoolError, SizeChange
from actors.members.pools.plan import no_pool
from actors.members.pools.status import MemberStatus
from actors.runtime import ray_runtime
from actors.runtime.environment import REAL, Clock
from actors.runtime.ray_runtime import ClusterError

MEMBER = MemberStatus(
    slot=0,
    pid=4711,
    node_id="9510e81edd52ffff",
    state="Running",
    error=None,
    member_id="m-1",
    generation_id=3,
    assignment=(("clicks", 0), ("clicks", 2)),
    handled=41,
    dead_letters=1,
    restarts=0,
    version=3,
)
RECORDED = PoolDescription(
    name="clicks",
    state=PoolState.UNSUPERVISED,
    version=3,
    running_version=0,
    group_id="counting",
    topics=("clicks", "views"),
    size=2,
    autoscale=None,
    paused=False,
    deployed_at_ms=1_764_000_000_000,
    bootstrap_servers="127.0.0.1:9092",
)
RUNNING = replace(
    RECORDED,
    state=PoolState.RUNNING,
    running_version=3,
    members=(MEMBER, replace(MEMBER, slot=1, pid=0, state="Starting", assignment=(), generation_id=-1)),
    handled=82,
    supervisor_pid=99,
    supervisor_node_id="9510e81edd52ffff",
)
LINES = [
    MemberLine(1_764_000_000_000, 0, 4711, 1, "stdout", "hello"),
    MemberLine(1_764_000_000_500, 1, 4712, 1, "WARNING", "app: \x1b[31mred\x1b[0m"),
    MemberLine(1_764_000_001_000, 1, 0, 1, "POOL", "the member with pid 4712 has died"),
]


class FakePool:
    """In place of DeployedPool. The class has the cluster's pools, and notes the requests to them."""

    pools: ClassVar[dict[str, PoolDescription]] = {}
    asked: ClassVar[list[Any]] = []
    lines: ClassVar[list[MemberLine]] = []

    def __init__(self, name: str, bootstrap_servers: str, **security: Any) -> None:
        if name not in self.pools:
            raise no_pool(name)
        self.name = name
        self.asked.append(("attach", bootstrap_servers, security))

    @classmethod
    def deployed(cls, bootstrap_servers: str, **security: Any) -> list[PoolDescription]:
        cls.asked.append(("list", bootstrap_servers, security))
        return list(cls.pools.values())

    def describe(self) -> PoolDescription:
        return self.pools[self.name]

    def scale(self, size: int) -> None:
        if self.pools[self.name].autoscale is not None:
            raise PoolError("the size of this pool follows its load")
        self.asked.append(("scale", size))

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")

    def restart(self) -> None:
        self.asked.append("restart")

    def stop(self, timeout_s: float) -> None:
        self.asked.append(("stop", timeout_s))

    def logs(
        self, slot: int | None = None, *, tail: int = 100, since_ms: int = 0, after: Cursor | None = None
    ) -> list[MemberLine]:
        self.asked.append(("logs", slot, tail, since_ms))
        return [line for line in self.lines if slot in (None, line.slot)][-tail:]


class Rays:
    """Stands for joining a Ray: it may fail, and it counts the ends."""

    def __init__(self) -> None:
        self.error: ClusterError | None = None
        self.joined: list[tuple[str | None, Path | None]] = []
        self.ended = 0

    def join(self, ray_address: str | None, folder: Path | None) -> bool:
        if self.error is not None:
            raise self.error
        self.joined.append((ray_address, folder))
        return True

    def end(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakePool]:
    monkeypatch.setattr("actors.members.deployment.deployed.DeployedPool", FakePool)
    monkeypatch.setattr(calls, "check_reachable", lambda _: None)
    monkeypatch.setattr(FakePool, "pools", {"clicks": RUNNING})
    monkeypatch.setattr(FakePool, "asked", [])
    monkeypatch.setattr(FakePool, "lines", LINES)
    return FakePool


@pytest.fixture(autouse=True)
def rays(monkeypatch: pytest.MonkeyPatch) -> Rays:
    made = Rays()
    monkeypatch.setattr(ray_runtime, "join", made.join)
    monkeypatch.setattr(ray_runtime, "end", made.end)
    return made


def pools(*arguments: str, code: int = 0, clock: Clock = REAL.clock) -> Result:
    done = CliRunner().invoke(cli, ["pools", *arguments], obj=clock)
    assert done.exit_code == code, done.output
    return done


# --- list ---


def test_the_list_says_what_is_wished_and_how_it_is(rays: Rays) -> None:
    assert pools("list", "--ray-address", "ray:1").stdout.splitlines() == [
        "POOL    WANTED   STATE    VERSION  GROUP     TOPICS        SIZE  RUNNING",
        "clicks  Running  Running  3        counting  clicks,views  2     1",
    ]
    assert rays.joined == [("ray:1", None)]
    assert rays.ended == 1


def test_without_ray_the_list_has_the_records_and_says_what_is_not_known(fake: type[FakePool], rays: Rays) -> None:
    rays.error = ClusterError("no cluster has been started on data directory d")
    fake.pools = {"clicks": replace(RECORDED, paused=True)}
    done = pools("list")
    assert done.stdout.splitlines()[1] == "clicks  Paused  -      3        counting  clicks,views  2     -"
    assert "no supervisor could be asked: no cluster has been started" in done.stderr
    (row,) = json.loads(pools("list", "--format", "json").stdout)
    assert (row["state"], row["running"], row["topics"]) == (None, None, ["clicks", "views"])


def test_a_wrong_password_came_second_after_what_no_supervisor_could_say(
    fake: type[FakePool], rays: Rays, monkeypatch: pytest.MonkeyPatch
) -> None:
    rays.error = ClusterError("no cluster has been started on data directory d")
    refused = SaslAuthenticationError("logging in as 'shop' by PLAIN: it is wrong")

    def refuse(*_: object, **__: object) -> None:
        raise refused

    fake.pools = {"clicks": RECORDED}
    for verb, method in ((("list",), "deployed"), (("describe", "clicks"), "describe"), (("stop", "clicks"), "stop")):
        monkeypatch.setattr(FakePool, method, refuse)
        assert pools(*verb, code=1).stderr == f"coterie: {refused}\n"


def test_without_pools_nobody_asks_how_they_are(fake: type[FakePool], rays: Rays) -> None:
    rays.error = ClusterError("no cluster has been started on data directory d")
    fake.pools = {}
    assert pools("list").stderr == "No pool is deployed.\n"


def test_a_pool_of_another_ray_is_unsupervised_here(fake: type[FakePool]) -> None:
    fake.pools = {"clicks": RECORDED}
    (row,) = json.loads(pools("list", "--format", "json").stdout)
    assert (row["state"], row["running"]) == ("Unsupervised", None)


def test_a_ray_that_is_named_has_to_be_there(rays: Rays) -> None:
    rays.error = ClusterError("no Ray answers at ray:1")
    done = pools("list", "--ray-address", "ray:1", code=1)
    assert "no Ray answers at ray:1" in done.stderr
    assert "--ray-address" in done.stderr


def test_no_pool_is_no_error(fake: type[FakePool]) -> None:
    fake.pools = {}
    assert json.loads(pools("list", "--format", "json").stdout) == []
    assert "No pool is deployed." in pools("list").stderr


def test_the_commands_log_in_as_the_file_says(fake: type[FakePool], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\n")
    file.chmod(0o600)
    pools("list", "--bootstrap-server", "b:1", "--command-config", str(file))
    ((what, servers, security),) = fake.asked
    assert (what, servers, security["security_protocol"]) == ("list", "b:1", "SSL")


# --- describe ---


def test_a_pool_is_described_with_its_members(fake: type[FakePool]) -> None:
    fake.pools["clicks"] = replace(
        RUNNING,
        autoscale=Autoscale(max_size=4, target_lag=10),
        rollout=RolloutStatus(2, 3, 1, 2),
        last_error="member 1: bad",
        size_changes=(SizeChange(0, 0, 1, "the pool begins"), SizeChange(1000, 1, 2, "a lag")),
    )
    done = pools("describe", "clicks")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[1][:9] == ["clicks", "Running", "Running", "3", "3", "counting", "clicks,views", "2", "1..4"]
    assert rows[4][:6] == ["0", "Running", "3", "4711", "9510e81edd52", "clicks-0,clicks-2"]
    assert rows[5][:4] == ["1", "Starting", "3", "-"]
    assert rows[8][-2:] == ["a", "lag"], "the last change first"
    assert "Version 3 has gone through 1 of 2 members." in done.stderr
    assert "Last error: member 1: bad" in done.stderr


@pytest.mark.parametrize(
    ("rollout", "text"),
    [
        (RolloutStatus(2, 3, 0, 2, "member 0 failed"), "Version 3 was rolled back to 2: member 0 failed"),
        (RolloutStatus(3, 3, 1, 2), "Version 3: 1 of 2 members have begun and proved to work."),
    ],
)
def test_a_rollout_is_told_in_words(fake: type[FakePool], rollout: RolloutStatus, text: str) -> None:
    fake.pools["clicks"] = replace(RUNNING, rollout=rollout)
    assert text in pools("describe", "clicks").stderr


def test_a_pool_whose_members_all_run_has_no_remark(fake: type[FakePool]) -> None:
    """The remark once said of a pool that was deployed once, and never restarted, that it had restarted."""
    fake.pools["clicks"] = replace(RUNNING, rollout=RolloutStatus(3, 3, 2, 2), last_error=None)
    assert pools("describe", "clicks").stderr == ""


def test_described_as_json_it_has_everything() -> None:
    found = json.loads(pools("describe", "clicks", "--format", "json").stdout)
    assert (found["state"], found["members"][0]["assignment"]) == ("Running", [["clicks", 0], ["clicks", 2]])


def test_a_watched_pool_is_shown_again_and_again() -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    watching = ("describe", "clicks", "--watch", "--interval", "5")
    assert pools(*watching, code=130, clock=Clock(sleep=sleep)).stdout.count("4711") == 2
    assert slept == [5.0, 5.0]


# --- wishes ---


@pytest.mark.parametrize(
    ("arguments", "asked", "said"),
    [
        (["scale", "clicks", "5"], ("scale", 5), "clicks is to have 5 members"),
        (["pause", "clicks"], "pause", "clicks is to pause"),
        (["resume", "clicks"], "resume", "clicks is to go on"),
        (["restart", "clicks"], "restart", "the members of clicks are to restart"),
    ],
)
def test_a_wish_needs_no_ray(fake: type[FakePool], rays: Rays, arguments: list[str], asked: object, said: str) -> None:
    assert pools(*arguments).stdout == f"{said}\n"
    assert fake.asked == [("attach", "127.0.0.1:9092", {}), asked]
    assert rays.joined == []


def test_a_stop_waits_for_the_members_if_their_ray_is_there(fake: type[FakePool], rays: Rays) -> None:
    assert pools("stop", "clicks", "--wait", "3", "--ray-address", "ray:1").stdout == "stopped clicks\n"
    assert rays.joined == [("ray:1", None)]
    rays.error = ClusterError("no cluster has been started on data directory d")
    done = pools("stop", "clicks")
    assert done.stdout == "clicks is to stop\n"
    assert "no cluster has been started" in done.stderr
    assert [each for each in fake.asked if each[0] == "stop"] == [("stop", 3.0), ("stop", 60.0)]


@pytest.mark.parametrize("verb", ["describe", "pause", "resume", "restart", "stop", "logs"])
def test_a_pool_that_is_not_there_is_named(verb: str) -> None:
    assert pools(verb, "visits", code=1).stderr.endswith(
        "coterie: there is no pool called 'visits': `coterie pools list` shows those there are\n"
    )


def test_what_a_pool_refuses_is_told_in_its_words(fake: type[FakePool]) -> None:
    fake.pools["clicks"] = replace(RUNNING, autoscale=Autoscale(max_size=4, target_lag=10))
    assert pools("scale", "clicks", "2", code=1).stderr == "coterie: the size of this pool follows its load\n"


# --- logs ---


def test_lines_are_printed_with_whose_they_are_and_move_no_cursor() -> None:
    lines = pools("logs", "clicks").stdout.splitlines()
    assert [line[24:] for line in lines] == [
        "0    4711 stdout  hello",
        "1    4712 WARNING app: \\x1b[31mred\\x1b[0m",
        "1       - POOL    the member with pid 4712 has died",
    ]


def test_lines_as_json_are_objects() -> None:
    lines = pools("logs", "clicks", "--format", "json", "--tail", "1").stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["the member with pid 4712 has died"]


def test_member_tail_and_since_are_asked_for(fake: type[FakePool]) -> None:
    asked = ("logs", "clicks", "--member", "1", "--tail", "7", "--since", "10m")
    assert len(pools(*asked, clock=Clock(wall_ms=lambda: 1_000_000)).stdout.splitlines()) == 2
    assert ("logs", 1, 7, 400_000) in fake.asked


def test_a_member_that_never_was_is_named_with_the_option(fake: type[FakePool]) -> None:
    done = pools("logs", "clicks", "--member", "7", code=2)
    assert "--member" in done.stderr
    assert "no member 7" in done.stderr
    fake.lines = [replace(LINES[0], slot=7)]
    assert "hello" in pools("logs", "clicks", "--member", "7").stdout, "it has left, and its lines are known"


def test_a_time_that_is_none_is_named_with_the_option() -> None:
    done = pools("logs", "clicks", "--since", "yesterday", code=2)
    assert "--since" in done.stderr
    assert "'yesterday'" in done.stderr


def test_logs_need_a_ray(rays: Rays) -> None:
    rays.error = ClusterError("no cluster has been started on data directory d")
    done = pools("logs", "clicks", code=1)
    assert "no cluster has been started on data directory d: --ray-address or --data-dir says" in done.stderr


# --- following ---


class Source:
    """Lines as they come: for each time that somebody asks, a list, or an error to raise."""

    def __init__(self, *coming: list[MemberLine] | PoolError) -> None:
        self.coming = list(coming)
        self.cursors: list[dict[tuple[int, int], int]] = []

    def __call__(self, tail: int, after: Cursor) -> list[MemberLine]:
        self.cursors.append(dict(after))
        found = self.coming.pop(0)
        if isinstance(found, PoolError):
            raise found
        return found


def numbered(number: int, pid: int = 71) -> MemberLine:
    return MemberLine(number, 0, pid, number, "stdout", f"line {number} of {pid}")


def follow(source: Source, is_there: Callable[[], object] = lambda: None) -> list[str]:
    notes: list[str] = []
    reader = Reader(source, lambda line: line.text, notes.append)
    looks = len(source.coming) - 1
    reader.print_new(10)
    reader.follow(is_there, lambda _: None, looks)
    return notes


def test_what_has_been_printed_is_not_asked_for_again(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source([numbered(1), numbered(2)], [numbered(3)], [numbered(1, pid=72)], [])
    assert follow(source) == []
    assert capsys.readouterr().out.splitlines() == ["line 1 of 71", "line 2 of 71", "line 3 of 71", "line 1 of 72"]
    assert source.cursors == [{}, {(0, 71): 2}, {(0, 71): 3}, {(0, 71): 3, (0, 72): 1}]


def test_lines_that_were_written_too_fast_are_counted() -> None:
    notes = follow(Source([numbered(1)], [numbered(5)]))
    assert notes == ["3 lines of member 0 came faster than they could be read, and are not shown"]


def test_a_supervisor_that_starts_again_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    silent = PoolError("no supervisor can be asked now")
    notes = follow(Source([numbered(1)], silent, silent, [numbered(2)]))
    assert notes == ["no supervisor can be asked now"], "once"
    assert capsys.readouterr().out.splitlines() == ["line 1 of 71", "line 2 of 71"]


def test_a_pool_that_has_been_stopped_ends_it() -> None:
    def is_there() -> None:
        raise PoolError("there is no pool 'clicks'")

    with pytest.raises(PoolError, match="there is no pool"):
        follow(Source([], PoolError("silent")), is_there)


def test_a_tab_stays_and_an_empty_line_has_no_blanks_at_its_end() -> None:
    assert text_line(replace(LINES[0], text="a\tb")).endswith("a\tb")
    assert text_line(replace(LINES[0], text="")).endswith("stdout")
