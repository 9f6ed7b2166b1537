"""A member's report, as a line and back."""

from __future__ import annotations

import pytest

from actors.links.member_report import MemberReport, ReportError


def test_a_report_is_one_line_whatever_the_error_says() -> None:
    report = MemberReport("Failed", "line\nline", "m", 4, (("t", 0), ("u", 7)), 5, 6, 7)
    line = report.encode()
    assert line.count(b"\n") == 1
    assert MemberReport.decode(line) == report


@pytest.mark.parametrize("line", [b"", b"{", b"[]\n", b"{}\n", b"\xff\n", b'{"assignment": [], "mood": 1}\n'])
def test_what_is_no_report_is_refused(line: bytes) -> None:
    with pytest.raises(ReportError):
        MemberReport.decode(line)


def test_a_report_that_is_cut_short_is_refused() -> None:
    line = MemberReport("Running").encode()
    for end in range(len(line) - 1):
        with pytest.raises(ReportError):
            MemberReport.decode(line[:end])
