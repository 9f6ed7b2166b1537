"""The frame of the command: exit codes, one-line errors, what it prints where, and how quick it is to start."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from actors.cli import output
from actors.cli.errors import CliError, run
from actors.cli.main import LazyGroup, cli
from actors.cli.options import key_values, names
from actors.client.errors import KafkaError
from actors.cluster import Cluster, ClusterError
from actors.settings import SettingError
from spark_bridge.java import JavaError


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CliError("no such topic"), 1, "coterie: no such topic"),
        (KafkaError("two\nlines"), 1, "coterie: two lines"),
        (SettingError("a", "a is wrong"), 1, "coterie: a is wrong"),
        (JavaError("no Java"), 1, "coterie: no Java"),
        (ClusterError("no cluster"), 1, "coterie: no cluster"),
        (ConnectionRefusedError("refused"), 1, "coterie: refused"),
        (click.UsageError("bad flag"), 2, "coterie: bad flag (see coterie --help)"),
        (KeyError("x"), 1, "coterie: this should not have happened: KeyError: 'x'; set COTERIE_DEBUG=1 to see where"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
    ],
)
def test_error_is_one_line_and_an_exit_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(error)) == code
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", said)


def test_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COTERIE_DEBUG", "1")
    assert run(raising(KeyError("x"))) == 1
    assert "Traceback" in capsys.readouterr().err


def test_number_returned_by_a_command_is_the_exit_code() -> None:
    assert run(lambda: 1) == 1
    assert run(lambda: None) == 0


@pytest.mark.parametrize("arguments", [["nope"], ["--nope"], ["doctor", "--port", "x"], ["doctor", "--format", "xml"]])
def test_wrong_usage_exits_with_two_and_one_line(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("coterie: ")
    assert result.stderr.count("\n") == 1


def test_help_names_every_verb_without_importing_one() -> None:
    program = (
        "import sys; from actors.cli.main import cli\n"
        "try: cli.main(['--help'])\n"
        "finally: print(sorted(m for m in sys.modules if m.startswith('actors.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert "doctor" in done.stdout
    assert done.stderr.strip() == "['actors.cli.errors', 'actors.cli.main', 'actors.cli.output']"


def test_verb_whose_module_is_missing_is_not_offered() -> None:
    group = LazyGroup("x", verbs={"gone": ("actors.cli.no_such_module", "gone", "Nothing.")})
    result = CliRunner().invoke(group, ["gone"])
    assert (result.exit_code, "No such command 'gone'" in result.stderr) == (2, True)


def test_interrupt_ends_with_130_and_no_traceback() -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import click, sys, time; from actors.cli.main import LazyGroup\n"
        "import actors.cli.main as m\n"
        "group = LazyGroup('x', verbs={})\n"
        "group.list_commands = lambda ctx: ['wait']\n"
        "def wait():\n    print('ready', flush=True)\n    while True: time.sleep(0.1)\n"
        "group.get_command = lambda ctx, name: click.Command('wait', callback=wait)\n"
        "group.main(['wait'])\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in err


def test_reader_that_goes_away_ends_the_command_quietly() -> None:
    program = "from actors.cli.errors import run\nimport sys\nsys.exit(run(lambda: print('x' * 10_000_000)))"
    read_end, write_end = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", program], stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    os.close(read_end)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (141, "")


# --- output ---

ROWS = [{"group": "g", "log_end_offset": 12, "extra": [1, 2]}, {"group": "long name", "log_end_offset": None}]


def test_table_in_a_pipe_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(ROWS, ("group", "log_end_offset", "extra"), "table")
    assert capsys.readouterr().out.splitlines() == [
        "GROUP      LOG-END-OFFSET  EXTRA",
        "g          12              1,2",
        "long name  -               -",
    ]


def test_json_has_every_key_and_null(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(ROWS, ("group",), "json")
    assert json.loads(capsys.readouterr().out) == ROWS


def test_nothing_is_an_empty_list_in_json_and_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit([], ("group",), "json")
    output.emit([], ("group",), "table")
    assert capsys.readouterr().out == "[]\n"


def test_table_on_a_terminal_is_complete_and_takes_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    output.emit([{"group": "[red]g"}], ("group",), "table")
    assert "[red]g" in terminal.getvalue()


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert output.text("a\x1b[31m\nb") == "a\\x1b[31m\\nb"


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("working", 3) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""


# --- options ---


def test_names_come_from_arguments_and_options_once() -> None:
    assert names(["a", "b"], ["b", "c"], "topic") == ["a", "b", "c"]
    with pytest.raises(click.UsageError, match="name at least one topic"):
        names([], [], "topic")


def test_key_values_split_at_the_first_equals_sign() -> None:
    assert key_values(["a=1", "b = x=y"]) == {"a": "1", "b": " x=y"}
    with pytest.raises(click.BadParameter, match="'a' is not KEY=VALUE"):
        key_values(["a"])


def test_what_ray_writes_is_not_part_of_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connected:
        def __enter__(self) -> Connected:
            return self

        def __exit__(self, *_: object) -> None: ...

        def status(self) -> dict[str, str]:
            sys.stdout.write("(raylet) WARNING: 60 PYTHON worker processes have been started\n")
            return {"name": "default"}

    monkeypatch.setattr(Cluster, "connect", lambda *_, **__: Connected())
    done = CliRunner().invoke(cli, ["status", "--format", "json"], catch_exceptions=False)
    assert json.loads(done.stdout) == {"name": "default"}
    assert "(raylet)" in done.stderr
