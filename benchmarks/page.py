"""The page docs/benchmarks.md and its plots, made of a report: `python -m benchmarks.page`.

No figure on the page is typed by hand. Words about the misses stand in `misses.md`, which the page quotes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.model import Better, Budget, Part, Report, Row, Samples
from benchmarks.plot import svg

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results.json")
MISSES = Path(__file__).with_name("misses.md")
PAGE = ROOT / "docs" / "benchmarks.md"

_HOW = """\
Made by `make bench`; [how it measures](../benchmarks/README.md). Coterie and the peer run on the same machine in the
same run, in turns, and share its cores with the clients. Each figure is the median of the turns, with the least and
the most in brackets. The ratio is our median divided by the peer's. CPU is the time that all servers took for one
request. In the plots a dot is the ratio and a bar how far the turns of both allow it to be; the upright mark is the
budget of the ratio, and an arrow says which side is better. Green rows meet their whole budget, red ones do not.
"""
QUICK = "**A quick run: it shows that each part works, and its figures mean nothing.**\n"


def figure(value: float) -> str:
    """Three digits, and whole numbers in full."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """The rows as a table of markdown, with columns of CPU time if any row has it."""
    with_cpu = any(row.ours.cpu_us for row in rows)
    head = ["what", "unit", "Coterie", "peer", "ratio", "budget", "met"]
    cpu = ["CPU µs", "peer's"] if with_cpu else []
    lines = [
        _cells([*head, *cpu]),
        _cells(["---", "---", "---:", "---:", "---:", "---", "---", *(["---:"] * len(cpu))]),
    ]
    for row in rows:
        cells = [row.what, row.unit, _samples(row.ours), _peer(row), "" if row.ratio is None else f"{row.ratio:.2f}"]
        cells += [_budget(row.budget, row), {True: "yes", False: "**no**", None: ""}[row.met]]
        cells += [_cpu(row.ours), _cpu(row.peer)] if with_cpu else []
        lines.append(_cells(cells))
    return "\n".join(lines)


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _samples(samples: Samples) -> str:
    middle, least, most = (figure(each) for each in (samples.median, min(samples.values), max(samples.values)))
    return middle if len(samples.values) == 1 else f"{middle} ({least}..{most})"


def _peer(row: Row) -> str:
    if row.peer is None:
        return ""
    return f"{_samples(row.peer)}{f' {row.peer_name}' if row.peer_name else ''}"


def _cpu(samples: Samples | None) -> str:
    return "" if samples is None or samples.cpu is None else figure(samples.cpu)


def _budget(budget: Budget | None, row: Row) -> str:
    if budget is None:
        return ""
    side = "at least" if row.better is Better.MORE else "at most"
    parts = [f"{side} {budget.ratio:g} x"] if budget.ratio is not None else []
    parts += [f"{side} {figure(budget.limit)} {row.unit}"] if budget.limit is not None else []
    return ", ".join(parts)


def page(report: Report, words: str = "") -> str:
    """The whole page. `words` say what is known of the misses."""
    sections = [f"# Benchmarks\n\n{_HOW}\n{report.machine}.\n"]
    sections += [QUICK] if report.quick else []
    sections.append(_missed(report, words))
    sections += [section(part) for part in report.parts]
    return "\n".join(sections)


def _missed(report: Report, words: str) -> str:
    budgets = sum(row.budget is not None for part in report.parts for row in part.rows)
    lines = [f"## Missed\n\n{len(report.missed)} of {budgets} budgets.\n"]
    for part, row in report.missed:
        ratio = "" if row.ratio is None else f", ratio {row.ratio:.2f}"
        value = f"{figure(row.ours.median)} {row.unit}"
        lines.append(f"- [{part.name}](#{part.name}): {row.what}: {value}{ratio}; {_budget(row.budget, row)}")
    return "\n".join(lines) + "\n" + (f"\n{words.strip()}\n" if words.strip() else "")


def section(part: Part) -> str:
    lines = [f"## {part.name}", "", part.about, ""]
    if svg(part.name, part.rows) is not None:
        lines += [f"![Ratios of {part.name}](benchmarks/{part.name}.svg)", ""]
    if part.rows:
        lines += [table(part.rows), ""]
    lines += [f"- Not measured: {each.what}: {each.reason}" for each in part.failures]
    if part.failures:
        lines.append("")
    beside = f", beside {part.peer}" if any(row.peer is not None for row in part.rows) else ""
    lines += [f"{part.date}, {part.took_s:.0f} s{beside}.", ""]
    return "\n".join(lines)


def write(report: Report, to: Path = PAGE) -> None:
    """Write the page, and the plots into the folder of its name."""
    plots = to.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    for part in report.parts:
        if (plot := svg(f"{part.name}: ratio to the peer", part.rows)) is not None:
            (plots / f"{part.name}.svg").write_text(plot)
    to.write_text(page(report, MISSES.read_text() if MISSES.exists() else ""))


if __name__ == "__main__":
    write(Report.decode(RESULTS.read_text()))
