"""The page of the benchmarks and its plots, made of a report."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from benchmarks import abuse, authorizer, page, tls
from benchmarks.model import Better, Budget, Failure, Part, Report, Row, Samples
from benchmarks.plot import MET, MISSED, ratios, svg

MET_ROW = Row(
    "commits", "/s", Better.MORE, Samples((2000.0, 1000.0, 3000.0), (7.0,)), Samples((1000.0,)), "", Budget(1.5)
)
MISSED_ROW = Row("memory & more", "MiB", Better.LESS, Samples((900.0,)), Samples((300.0,)), "nodes", Budget(1.5, 800.0))
ALONE = Row("loading", "s", Better.LESS, Samples((0.25,)), budget=Budget(limit=1.0))
REPORT = Report(
    "two cores",
    False,
    (
        Part("requests", "About requests.", "2026-11-23 12:00", 61.2, (MET_ROW, MISSED_ROW)),
        Part("loading", "About loading.", "2026-11-23 12:05", 9.0, (ALONE,), (Failure("the rest", "it broke"),)),
    ),
)


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (100.0, "100"), (99.94, "99.9"), (0.1234, "0.123"), (2.0, "2")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert page.figure(value) == text


def test_a_row_shows_median_spread_ratio_budget_and_whether_it_is_met() -> None:
    lines = page.table([MET_ROW, MISSED_ROW]).splitlines()
    assert lines[2] == "| commits | /s | 2,000 (1,000..3,000) | 1,000 | 2.00 | at least 1.5 x | yes | 7 |  |"
    memory = "| memory & more | MiB | 900 | 300 nodes | 3.00 | at most 1.5 x, at most 800 MiB | **no** |  |  |"
    assert lines[3] == memory


def test_a_table_without_cpu_times_has_no_columns_for_them() -> None:
    assert page.table([ALONE]).splitlines()[2] == "| loading | s | 0.25 |  |  | at most 1 s | yes |"


def test_the_page_names_what_is_missed_and_what_failed() -> None:
    text = page.page(REPORT, "Memory is missed because of this.")
    assert "1 of 3 budgets" in text
    assert "- [requests](#requests): memory & more: 900 MiB, ratio 3.00; at most 1.5 x, at most 800 MiB" in text
    assert "Memory is missed because of this." in text
    assert "- Not measured: the rest: it broke" in text
    assert page.QUICK not in text


def test_a_quick_run_is_said_to_mean_nothing() -> None:
    assert page.QUICK in page.page(Report("m", True, ()))


def test_every_part_with_ratios_has_a_plot_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "old.svg").touch()
    page.write(REPORT, tmp_path / "benchmarks.md")
    linked = re.findall(r"!\[.*\]\((.*)\)", (tmp_path / "benchmarks.md").read_text())
    assert linked == ["benchmarks/requests.svg"]
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.svg")] == linked


def test_a_plot_has_a_dot_for_each_ratio_in_the_colour_of_its_verdict() -> None:
    drawn = svg("a plot", [MET_ROW, MISSED_ROW, ALONE])
    assert drawn is not None
    circles = [each.attrib for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}circle")]
    assert [circle["fill"] for circle in circles] == [MET, MISSED]
    assert float(circles[0]["cx"]) < float(circles[1]["cx"]), "2 times is left of 3 times"


def test_rows_without_a_peer_have_no_plot() -> None:
    assert svg("a plot", [ALONE]) is None


def test_the_bar_of_a_ratio_is_as_wide_as_the_samples_allow() -> None:
    row = Row("r", "s", Better.LESS, Samples((2.0, 4.0)), Samples((1.0, 2.0)))
    (ratio,) = ratios([row])
    assert (ratio.least, ratio.most) == (1.0, 4.0)
    assert ratio.middle == pytest.approx(2.0)


@pytest.mark.skipif(not page.RESULTS.exists(), reason="nothing has been measured yet")
def test_the_page_in_the_docs_is_that_of_the_results(tmp_path: Path) -> None:
    page.write(Report.decode(page.RESULTS.read_text()), tmp_path / "benchmarks.md")
    made = {each.relative_to(tmp_path): each.read_text() for each in tmp_path.rglob("*") if each.is_file()}
    assert {path: (page.PAGE.parent / path).read_text() for path in made} == made, "run: python -m benchmarks.page"


@pytest.mark.conformance("XG-17")
@pytest.mark.parametrize("part", [tls, authorizer, abuse], ids=lambda part: part.__name__)
def test_what_security_costs_is_published_with_the_rest(part: ModuleType) -> None:
    name = part.__name__.rpartition(".")[2]
    published = page.PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert published
    assert [spec.what for spec in part.SPECS if f"| {spec.what} |" not in published] == []
