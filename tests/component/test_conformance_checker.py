"""The checker of the conformance checklist catches what it is there to catch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import DOCS, IDS, TESTS, Report, main, read_checklists, scan

TITLES = dict.fromkeys(IDS, "a title")
MARK = "import pytest\n\n@pytest.mark.conformance('A-01')\n"


def faults_of(folder: Path, source: str) -> list[str]:
    (folder / "test_it.py").write_text(source)
    report = Report({"A-01": "a title"}, scan(folder))
    return [fault for fault in report.faults if "checklist" not in fault]


@pytest.mark.parametrize(
    "body",
    [
        "assert find() == 3",
        "with pytest.raises(ValueError):\n        find()",
        "assert_found(find())",
        "self.expect_found(find())",
        "if find():\n        assert find() != 3",
        "for x in find():\n        assert x",
        "find().stub.assert_called_once()",
        "run_state_machine_as_test(Machine)",
        "assert 1 in find()",
        "assert not find()",
    ],
)
def test_test_that_asserts_is_a_proof(tmp_path: Path, body: str) -> None:
    assert faults_of(tmp_path, f"{MARK}def test_it(self):\n    {body}\n") == []


@pytest.mark.parametrize(
    "body",
    [
        "find()",
        "pass",
        "assert True",
        "assert 1",
        "assert 'it works'",
        "assert (find() == 4, 'never fails')",
        "assert not False",
        "assert 1 == 1",
        "assert x == x",
        "assert find() is find()",
        "assert find() or True",
        "assert True and 2 > 1",
        "assert f'{find()}'",
        "return\n    assert find() == 3",
        "pytest.skip('later')\n    assert find() == 3",
        "if False:\n        assert find() == 3",
        "assertion = find()",
        "print('assert find() == 3')",
    ],
)
def test_test_that_asserts_nothing_is_a_fault(tmp_path: Path, body: str) -> None:
    faults = faults_of(tmp_path, f"{MARK}def test_it(self):\n    {body}\n")
    assert faults == ["test_it.py::test_it asserts nothing", "A-01 has no test: a title"]


@pytest.mark.parametrize("helper", ["assert_fine", "expect_fine"])
def test_helper_that_asserts_nothing_does_not_count(tmp_path: Path, helper: str) -> None:
    (tmp_path / "support.py").write_text(f"def {helper}(x):\n    assert_deeper(x)\n\ndef assert_deeper(x):\n    pass\n")
    faults = faults_of(tmp_path, f"{MARK}def test_it():\n    {helper}(3)\n")
    assert "test_it.py::test_it asserts nothing" in faults


def test_helper_that_asserts_counts(tmp_path: Path) -> None:
    (tmp_path / "support.py").write_text("def assert_fine(x):\n    assert x == 3\n")
    assert faults_of(tmp_path, f"{MARK}def test_it():\n    assert_fine(3)\n") == []


@pytest.mark.parametrize("decorator", ["@pytest.mark.skip", "@pytest.mark.skip(reason='later')", "@pytest.mark.xfail"])
def test_test_that_never_runs_is_a_fault(tmp_path: Path, decorator: str) -> None:
    faults = faults_of(tmp_path, f"{MARK}{decorator}\ndef test_it():\n    assert find()\n")
    assert faults[0] == "test_it.py::test_it is skipped or expected to fail"


@pytest.mark.parametrize("arguments", ["", "*WANTED", "name()"])
def test_ids_that_cannot_be_read_are_a_fault(tmp_path: Path, arguments: str) -> None:
    source = f"import pytest\n\n@pytest.mark.conformance({arguments})\ndef test_it():\n    assert find()\n"
    assert faults_of(tmp_path, source)[0] == "test_it.py::test_it must name its statements as literal strings"


def test_statement_without_test_is_a_fault(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "def test_it():\n    assert find()\n") == ["A-01 has no test: a title"]


def test_id_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    source = "import pytest\n\n@pytest.mark.conformance('A-01', 'A-99')\ndef test_it():\n    assert find()\n"
    assert faults_of(tmp_path, source) == ["test_it.py::test_it names A-99, which does not exist"]


def test_statement_missing_from_the_checklist_is_a_fault() -> None:
    short = {each: title for each, title in TITLES.items() if each != "C-07"}
    assert "C-07 is not in the checklist" in Report(short, []).faults


@pytest.mark.parametrize(
    "source",
    [
        "pytestmark = pytest.mark.conformance('A-01')\ndef test_it():\n    assert find()\n",
        "pytestmark = [pytest.mark.conformance('A-01')]\ndef test_it():\n    assert find()\n",
        "@pytest.mark.conformance('A-01')\nclass TestIt:\n    def test_it(self):\n        assert find()\n",
        "class TestIt:\n    class TestDeep:\n        @pytest.mark.conformance('A-01')\n"
        "        async def test_it(self):\n            assert find()\n",
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.conformance('A-01'))])\n"
        "def test_it(x):\n    assert find(x)\n",
    ],
)
def test_marks_are_found_wherever_pytest_finds_them(tmp_path: Path, source: str) -> None:
    assert faults_of(tmp_path, f"import pytest\n{source}") == []


def test_checklist_holds_exactly_the_known_statements() -> None:
    assert tuple(read_checklists()) == IDS


def test_each_statement_about_nodes_has_a_test_or_a_line_that_says_why_not() -> None:
    """None is left out, and none stands in both tables."""
    _, _, untested = (DOCS / "conformance-nodes.md").read_text().partition("## What has no test")
    without = re.findall(r"^\| (N-[A-F]-\d\d): .+ \| .+ \|$", untested, re.MULTILINE)
    most = {"N-A": 14, "N-B": 4, "N-C": 11, "N-D": 7, "N-E": 7, "N-F": 112}
    every = [f"{part}-{n:02}" for part, last in most.items() for n in range(1, last + 1)]
    assert sorted([*without, *(each for each in IDS if each.startswith("N-"))]) == sorted(every)


def test_command_exits_with_one_and_names_the_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_it.py").write_text(f"{MARK}def test_it():\n    assert True\n")
    assert main(["--tests", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "FAULT  test_it.py::test_it asserts nothing" in out
    assert f"0 of {len(IDS)} statements proven by 1 tests" in out


def test_command_exits_with_zero_when_all_is_proven(tmp_path: Path) -> None:
    ids = ", ".join(map(repr, IDS))
    source = f"import pytest\n\n@pytest.mark.conformance({ids})\ndef test_it():\n    assert find()\n"
    (tmp_path / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "tests.conformance", "--tests", str(tmp_path)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=60, check=False)
    said = f"{len(IDS)} of {len(IDS)} statements proven by 1 tests"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, said)
