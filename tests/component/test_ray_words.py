"""Ray's lines in a program of ours go to the log, all others to standard output. Without a Ray."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.runtime import ray_words

DIED = "\x1b[33m(raylet)\x1b[0m A worker died or was killed\nwhile executing a task"


class Speaker:
    """A thread with a name that prints when it is told to."""

    def __init__(self, name: str) -> None:
        self._say: str | None = None
        self._told, self._done = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._told.acquire()
            print(self._say)  # noqa: T201
            self._done.release()

    def says(self, text: str) -> None:
        """Return when it has been printed."""
        self._say = text
        self._told.release()
        self._done.acquire()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger=ray_words.__name__)
    return lambda: [record.getMessage() for record in caplog.records if record.name == ray_words.__name__]


def test_what_a_thread_of_rays_prints_is_logged_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logged: Callable[[], list[str]]
) -> None:
    before, users = sys.stdout, Speaker("raymond")
    with ray_words.kept(tmp_path / "ray.log"):
        rays = Speaker("ray_listen_error_messages")
        print("mine, meanwhile")  # noqa: T201
    rays.says(DIED)
    users.says("a thread's")
    print("mine")  # noqa: T201
    with ray_words.leaving():
        print("(raylet) what was held back")  # noqa: T201
    print("mine again")  # noqa: T201
    assert sys.stdout is before
    assert capsys.readouterr().out == "mine, meanwhile\na thread's\nmine\nmine again\n"
    said = ["(raylet) A worker died or was killed", "while executing a task", "(raylet) what was held back"]
    assert logged() == said
    lines = (tmp_path / "ray.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == said


def test_a_thread_that_the_user_starts_meanwhile_is_not_rays(capsys: pytest.CaptureFixture[str]) -> None:
    with ray_words.kept(None):
        users = Speaker("MainThread-2")
    users.says("mine")
    with ray_words.leaving():
        pass
    assert capsys.readouterr().out == "mine\n"


def test_who_logs_to_standard_output_gets_rays_words_there_once(capsys: pytest.CaptureFixture[str]) -> None:
    class ToStdout(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print("LOG", record.getMessage())  # noqa: T201

    handler = ToStdout()
    ray_words.log.addHandler(handler)
    ray_words.log.setLevel(logging.INFO)
    try:
        with ray_words.kept(None):
            rays = Speaker("ray_print_logs")
        rays.says("(raylet) one")
        with ray_words.leaving():
            pass
    finally:
        ray_words.log.removeHandler(handler)
        ray_words.log.setLevel(logging.NOTSET)
    assert capsys.readouterr().out == "LOG (raylet) one\n"


def test_a_ray_that_does_not_start_leaves_standard_output_alone() -> None:
    before = sys.stdout
    with pytest.raises(RuntimeError, match="no Ray"), ray_words.kept(None):
        raise RuntimeError("no Ray")
    assert sys.stdout is before


def test_standard_output_that_somebody_has_replaced_meanwhile_is_not_put_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ray_words.kept(None):
        rays = Speaker("ray_listen_error_messages")
    ours = sys.stdout
    replaced = sys.stderr
    monkeypatch.setattr(sys, "stdout", replaced)
    with ray_words.leaving():
        pass
    assert sys.stdout is replaced
    monkeypatch.setattr(sys, "stdout", ours)
    rays.says("of a Ray of the user's")
    assert capsys.readouterr().out == "of a Ray of the user's\n"
