"""One of several controllers takes the cluster over when its term begins."""

from __future__ import annotations

from actors.controller.terms import TermsOfVoter
from actors.links.not_controller import NotControllerError
from tests.support.fake_ray import HandWork


class Cluster:
    """One that is taken over after as many calls as there are `refusals`."""

    def __init__(self, refusals: int) -> None:
        self.work = HandWork()
        self.calls = 0
        self._refusals = refusals
        self.terms = TermsOfVoter(self.work, self._take_over, lambda: None, lambda: None, started=True, has_log=True)

    def _take_over(self) -> None:
        self.calls += 1
        if self.calls <= self._refusals:
            raise NotControllerError


def test_a_controller_whose_parts_are_not_there_yet_takes_over_once_they_are() -> None:
    cluster = Cluster(2)
    cluster.terms.began()
    for _ in range(5):
        cluster.work.advance(1)
    assert cluster.calls == 3


def test_a_controller_that_leads_no_more_takes_nothing_over() -> None:
    cluster = Cluster(100)
    cluster.terms.began()
    calls = cluster.calls
    cluster.terms.look(leads=False)
    for _ in range(5):
        cluster.work.advance(1)
    assert cluster.calls <= calls + 1
