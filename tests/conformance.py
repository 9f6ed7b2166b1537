"""The tests that prove each statement of the conformance checklist: `python -m tests.conformance`.

Reads docs/conformance.md, its parts, and the syntax trees of the tests; runs and imports none of them. Exits with 1
when a statement has no test, or a test that names one asserts nothing, asserts only what is always true, or never runs.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
DOCS = TESTS.parent / "docs"
CHECKLISTS = (DOCS / "conformance.md", DOCS / "conformance-consumer.md", DOCS / "conformance-nodes.md")
RANGES = (
    *(("A", 1, 16), ("B", 1, 45), ("B", 50, 78), ("B", 80, 91), ("B", 100, 104)),
    *(("C", 1, 24), ("D", 1, 15), ("E", 1, 29), ("F", 1, 5), ("G", 1, 1)),
    *(("XA", 1, 60),),
    *(("XB", 1, 44),),
    *(
        ("XC", 1, 22),
        ("XC", 30, 78),
        ("XC", 80, 88),
    ),
    *(("XD", 1, 9),),
    *(
        ("XE", 1, 9),
        ("XE", 20, 26),
        ("XE", 30, 35),
        ("XE", 40, 42),
        ("XE", 50, 54),
    ),
    *(("XF", 1, 10),),
    *(("XG", 1, 17),),
    *(("K-B", 87, 103), ("K-B", 104, 116), ("K-B", 118, 120)),
    *(("K-F", 1, 44),),
    *(("K-G", 1, 2), ("K-G", 5, 5)),
    *(("K-A", 1, 16), ("K-A", 18, 20), ("K-A", 22, 80), ("K-A", 82, 82)),
    *(("K-B", 1, 86), ("K-B", 117, 117)),
    *(("K-B", 122, 128), ("K-B", 130, 130), ("K-B", 132, 133)),
    *(("K-C", 1, 64),),
    *(("K-D", 1, 1), ("K-D", 3, 19), ("K-D", 23, 33)),
    *(("K-E", 1, 48),),
    *(("K-I", 1, 13), ("K-I", 20, 20), ("K-I", 22, 22), ("K-I", 25, 26), ("K-I", 28, 34)),
    *(("N-A", 2, 4), ("N-A", 7, 10), ("N-A", 12, 14)),
    *(("N-B", 1, 4),),
    *(("N-C", 1, 5), ("N-C", 7, 11)),
    *(("N-D", 1, 7),),
    *(("N-E", 1, 5), ("N-E", 7, 7)),
    *(("N-F", 1, 80), ("N-F", 110, 112), ("N-F", 81, 109)),
)
IDS = tuple(f"{letter}-{n:02}" for letter, first, last in RANGES for n in range(first, last + 1))

_ROW = re.compile(r"^\| ((?:[KN]-)?[A-Z]{1,2}-\d{2,3}) \| (.+) \|$", re.MULTILINE)
_HELPER = re.compile(r"_*(assert|expect)_\w+")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NEVER_RUN = ("mark.skip", "mark.xfail")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Proof:
    """A test that names statements; `fault` says why it proves nothing, None if it does prove them."""

    test: str
    ids: tuple[str, ...]
    fault: str | None


@dataclass(slots=True)
class Report:
    """The checklist against the tests."""

    titles: dict[str, str]
    proofs: list[Proof]
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        missing = [each for each in IDS if each not in self.titles]
        self.faults += [f"{each} is not in the checklist" for each in missing]
        self.faults += [f"{each} is not a statement of the checklist" for each in self.titles if each not in IDS]
        for proof in self.proofs:
            unknown = [each for each in proof.ids if each not in IDS]
            self.faults += [f"{proof.test} names {each}, which does not exist" for each in unknown]
            if proof.fault:
                self.faults.append(f"{proof.test} {proof.fault}")
        self.faults += [f"{each} has no test: {self.titles[each]}" for each in self.unproven()]

    def tests_of(self, statement: str) -> list[str]:
        return [proof.test for proof in self.proofs if statement in proof.ids and not proof.fault]

    def unproven(self) -> list[str]:
        return [each for each in self.titles if each in IDS and not self.tests_of(each)]

    def table(self) -> str:
        """One line a statement: id, number of tests, title, the first test."""
        lines = []
        for each, title in self.titles.items():
            tests = self.tests_of(each)
            lines.append(f"{each:<7} {len(tests):>3}  {title[:68]:<68}  {tests[0] if tests else '-'}")
        return "\n".join(lines)


def read_checklist(text: str) -> dict[str, str]:
    """Statement ids and their titles."""
    return dict(_ROW.findall(text))


def scan(folder: Path) -> list[Proof]:
    """Every test in `folder` that names a statement."""
    trees = {path: ast.parse(path.read_text(), str(path)) for path in sorted(folder.rglob("*.py"))}
    idle = _idle_helpers(trees.values())
    return [
        proof
        for path, tree in trees.items()
        if path.name.startswith("test_")
        for proof in _proofs(path.relative_to(folder).as_posix(), tree, idle)
    ]


def read_checklists(files: Iterable[Path] = CHECKLISTS) -> dict[str, str]:
    """The statements of all files, in their order."""
    return read_checklist("\n".join(each.read_text() for each in files))


def check(folder: Path = TESTS, checklists: Iterable[Path] = CHECKLISTS) -> Report:
    """The whole check; `Report.faults` is empty when all is well."""
    return Report(read_checklists(checklists), scan(folder))


def main(argv: list[str] | None = None) -> int:
    """The command: prints the table, then what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--tests", type=Path, default=TESTS, help="folder of the tests")
    parser.add_argument("--checklist", type=Path, nargs="+", default=CHECKLISTS, help="files of the statements")
    parser.add_argument("--faults", action="store_true", help="print only what is wrong")
    options = parser.parse_args(argv)
    report = check(options.tests, options.checklist)
    if not options.faults:
        sys.stdout.write(report.table() + "\n\n")
    for fault in report.faults:
        sys.stdout.write(f"FAULT  {fault}\n")
    proven = len(report.titles) - len(report.unproven())
    sys.stdout.write(f"{proven} of {len(report.titles)} statements proven by {len(report.proofs)} tests\n")
    return 1 if report.faults else 0


# --- reading tests ---


def _proofs(file: str, tree: ast.Module, idle: set[str]) -> Iterator[Proof]:
    everywhere = [node.value for node in tree.body if isinstance(node, ast.Assign) and _assigns(node, "pytestmark")]
    for scope, function in _tests(tree):
        marks = [*everywhere, *(mark for each in scope for mark in each.decorator_list), *function.decorator_list]
        calls = [call for mark in marks for call in _conformance_calls(mark)]
        if calls:
            name = "::".join([file, *(each.name for each in scope), function.name])
            yield Proof(name, _ids(calls), _fault(function, marks, calls, idle))


def _tests(tree: ast.Module) -> Iterator[tuple[list[ast.ClassDef], Function]]:
    stack: list[tuple[list[ast.ClassDef], ast.stmt]] = [([], node) for node in tree.body]
    for scope, node in stack:  # grows while it is read: classes add their bodies
        if isinstance(node, ast.ClassDef):
            stack += [([*scope, node], each) for each in node.body]
        elif isinstance(node, _FUNCTIONS) and node.name.startswith("test"):
            yield scope, node


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _conformance_calls(mark: ast.expr) -> list[ast.Call]:
    calls = [node for node in ast.walk(mark) if isinstance(node, ast.Call)]
    return [call for call in calls if _dotted(call.func).endswith("mark.conformance")]


def _ids(calls: Iterable[ast.Call]) -> tuple[str, ...]:
    arguments = [argument for call in calls for argument in call.args]
    return tuple(str(each.value) for each in arguments if isinstance(each, ast.Constant))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _called(node: ast.expr) -> str:
    return _dotted(node.func) if isinstance(node, ast.Call) else ""


def _fault(function: Function, marks: list[ast.expr], calls: list[ast.Call], idle: set[str]) -> str | None:
    if not all(call.args and all(isinstance(each, ast.Constant) for each in call.args) for call in calls):
        return "must name its statements as literal strings"
    names = [_called(mark) or _dotted(mark) for mark in marks]
    if any(name.endswith(_NEVER_RUN) for name in names):
        return "is skipped or expected to fail"
    return None if _asserts(function, idle) else "asserts nothing"


# --- what counts as an assertion ---


def _asserts(function: Function, idle: set[str]) -> bool:
    return any(_is_assertion(node, idle) for statement in _reached(function) for node in ast.walk(statement))


def _reached(function: Function) -> Iterator[ast.stmt]:
    """The statements before an unconditional return or skip."""
    for statement in function.body:
        if isinstance(statement, ast.Return | ast.Raise):
            return
        if isinstance(statement, ast.Expr) and _called(statement.value) in ("pytest.skip", "pytest.xfail"):
            return
        if isinstance(statement, ast.If) and _constant(statement.test) and not statement.orelse:
            continue
        yield statement


def _is_assertion(node: ast.AST, idle: set[str]) -> bool:
    if isinstance(node, ast.Assert):
        return not _always_true(node.test)
    if not isinstance(node, ast.Call):
        return False
    name = _dotted(node.func)
    last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if name in ("pytest.raises", "pytest.warns", "pytest.fail") or last == "run_state_machine_as_test":
        return True
    return bool(_HELPER.fullmatch(last)) and last not in idle


def _always_true(test: ast.expr) -> bool:
    """Assertions that hold whatever the code under test does."""
    match test:
        case ast.Constant() | ast.Tuple() | ast.JoinedStr() | ast.Lambda():
            return True
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _constant(operand)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_always_true(value) for value in values)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_always_true(value) for value in values)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            return ast.dump(left) == ast.dump(right) or (_constant(left) and _constant(right))
        case ast.Compare(left=left, comparators=comparators):
            return _constant(left) and all(_constant(each) for each in comparators)
    return False


def _constant(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(_constant(each) for each in node.elts)
    return isinstance(node, ast.Constant)


def _idle_helpers(trees: Iterable[ast.Module]) -> set[str]:
    """`assert_*` and `expect_*` functions defined in the tests that assert nothing themselves."""
    helpers = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS) and _HELPER.fullmatch(node.name)
    ]
    idle: set[str] = set()
    while True:  # until no more follow: a helper that only calls idle ones is idle
        found = {each.name for each in helpers if not _asserts(each, idle)}
        working = {each.name for each in helpers if each.name not in found}
        found -= working  # of two with one name, in two files, one that works is enough
        if found <= idle:
            return idle
        idle |= found


if __name__ == "__main__":
    sys.exit(main())
