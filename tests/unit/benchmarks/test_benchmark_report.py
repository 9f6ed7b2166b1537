"""The report of the benchmarks: what a budget says of samples, and what comes back from JSON."""

from __future__ import annotations

import pytest

from benchmarks.figures import OURS, PEER, Figures, Spec
from benchmarks.model import Better, Budget, Failure, Part, Report, Row, Samples


def row(ours: tuple[float, ...], peer: tuple[float, ...] | None, better: Better, budget: Budget | None = None) -> Row:
    return Row("a row", "s", better, Samples(ours), None if peer is None else Samples(peer), budget=budget)


def part(name: str, *rows: Row) -> Part:
    return Part(name, f"About {name}.", "2026-11-23 12:00", 3.5, rows, (Failure("one more", "no compiler"),))


def test_the_ratio_is_of_the_medians() -> None:
    assert row((1.0, 9.0, 2.0), (4.0, 4.0, 100.0), Better.LESS).ratio == 0.5


@pytest.mark.parametrize("peer", [None, (0.0, 0.0)], ids=["no peer", "a peer of nothing"])
def test_without_a_peer_there_is_no_ratio(peer: tuple[float, ...] | None) -> None:
    assert row((1.0,), peer, Better.LESS).ratio is None


@pytest.mark.parametrize(
    ("ours", "peer", "better", "budget", "met"),
    [
        (2.0, 1.0, Better.LESS, Budget(ratio=2.0), True),
        (2.1, 1.0, Better.LESS, Budget(ratio=2.0), False),
        (2.0, 1.0, Better.MORE, Budget(ratio=2.0), True),
        (1.9, 1.0, Better.MORE, Budget(ratio=2.0), False),
        (12.0, None, Better.LESS, Budget(limit=12.0), True),
        (12.1, None, Better.LESS, Budget(limit=12.0), False),
        (13.0, 10.0, Better.LESS, Budget(3.0, 12.0), False),
        (11.0, 3.0, Better.LESS, Budget(3.0, 12.0), False),
        (11.0, 10.0, Better.LESS, Budget(3.0, 12.0), True),
        (1.0, None, Better.LESS, Budget(ratio=2.0), None),
        (11.0, None, Better.LESS, Budget(3.0, 12.0), None),
        (13.0, None, Better.LESS, Budget(3.0, 12.0), False),
        (1.0, 1.0, Better.LESS, None, None),
    ],
)
def test_a_budget_is_met_if_the_ratio_and_the_limit_are(
    ours: float, peer: float | None, better: Better, budget: Budget | None, met: bool | None
) -> None:
    assert row((ours,), None if peer is None else (peer,), better, budget).met is met


def test_a_report_comes_back_from_its_json() -> None:
    with_cpu = Row(
        "b", "/s", Better.MORE, Samples((1.0, 2.0), (30.0, 31.0)), Samples((3.0,)), "nodes", Budget(1.0, 5.0)
    )
    report = Report("two cores", True, (part("x", row((1.5,), None, Better.LESS), with_cpu), part("y")))
    assert Report.decode(report.encode()) == report


def test_a_part_measured_again_takes_the_place_of_the_former() -> None:
    report = Report("m", False, ()).with_part(part("x")).with_part(part("y"))
    again = part("x", row((1.0,), None, Better.LESS))
    assert report.with_part(again).parts == (again, part("y"))


def test_figures_keep_the_samples_of_each_side_in_the_order_of_the_specs() -> None:
    first, second = Spec("first", "s", Better.LESS), Spec("second", "/s", Better.MORE, Budget(1.0), "nodes")
    figures = Figures([first, second])
    figures.add(OURS, "second", 10.0, 4.0)
    figures.add(PEER, "second", 20.0, 5.0)
    figures.add(OURS, "second", 12.0, 6.0)
    figures.add(OURS, "first", 1.0)
    expected_second = Row(
        "second", "/s", Better.MORE, Samples((10.0, 12.0), (4.0, 6.0)), Samples((20.0,), (5.0,)), "nodes", Budget(1.0)
    )
    assert figures.rows() == [Row("first", "s", Better.LESS, Samples((1.0,))), expected_second]


def test_a_figure_without_samples_of_ours_is_no_row() -> None:
    figures = Figures([Spec("first", "s", Better.LESS)])
    figures.add(PEER, "first", 1.0)
    assert figures.rows() == []


def test_a_figure_that_was_not_announced_is_refused() -> None:
    with pytest.raises(KeyError):
        Figures([]).add(OURS, "anything", 1.0)


def test_a_failed_attempt_is_kept_and_the_next_one_runs() -> None:
    figures = Figures([Spec("first", "s", Better.LESS)])
    with figures.attempt(PEER, "first"):
        raise RuntimeError("not today")
    with figures.attempt(OURS, "first"):
        figures.add(OURS, "first", 1.0)
    assert figures.failures == [Failure("first, peer", "RuntimeError: not today")]
    assert len(figures.rows()) == 1


def test_a_long_reason_keeps_its_end() -> None:
    figures = Figures([])
    figures.fail("a start", RuntimeError("x" * 5000 + "\nport taken"))
    assert figures.failures[0].reason.startswith("RuntimeError: xx")
    assert figures.failures[0].reason.endswith("x port taken")
    assert len(figures.failures[0].reason) < 310
