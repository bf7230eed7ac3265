"""Records of failovers in PostgreSQL: alone, in the list of all and on pages they are those of the whole history."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db.models import QuerySet
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.objects import failovers
from apps.objects.models import ChangeLog
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Change
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.failover_record import FailoverRecord
from tests.apps.pages import found
from tests.apps.test_records import binding, changed, cluster, evicted, now, stored, tainted, turned
from tests.simulation.histories import PAUSES, STEPS, history, records
from tests.simulation.stories import NGINX_BINDING

HAPPENINGS = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(PAUSES)), min_size=2, max_size=6)
OTHER = Ref(NGINX_BINDING.kind, NGINX_BINDING.namespace, "other-deployment")


def kept(log: list[Change]) -> None:
    """Make this the whole change log."""
    QuerySet(ChangeLog).delete()
    QuerySet(ChangeLog).bulk_create(
        ChangeLog(
            version=one.version,
            type=one.type,
            kind=one.ref.kind,
            namespace=one.ref.namespace,
            name=one.ref.name,
            doc=one.document.decode(),
            old_doc=None if one.old_document is None else one.old_document.decode(),
            actor=one.actor,
            reason=one.reason,
            cause=one.cause,
            at=one.at,
        )
        for one in log
    )


def pages(limit: int) -> Iterator[FailoverRecord]:
    """Yield all records, read page by page."""
    page = failovers.page(limit=limit)
    yield from page.records
    while page.after is not None:
        page = failovers.page(after=page.after, limit=limit)
        yield from page.records


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HAPPENINGS, st.integers(1, 3))
def test_lists_pages_and_single_reads_say_what_the_whole_history_says(
    db: None, happenings: list[tuple[str, int]], limit: int
) -> None:
    log = history(happenings).store.log
    kept(log)

    alone = list(failovers.of_binding(NGINX_BINDING))

    assert alone == list(records(log))
    assert list(failovers.of_fleet().records) == alone
    assert list(pages(limit)) == alone


def test_an_outage_whose_cluster_was_false_and_then_unknown_is_reported_from_its_beginning(root: Client) -> None:
    place, of = (made.ref for made in stored(cluster("member1"), binding("web", "member1")))
    for status in ("True", "False"):
        turned(place, status)
    seen = now()
    QuerySet(ChangeLog).filter(name="member1").update(at=seen)
    turned(place, "Unknown")
    tainted(place)
    evicted(of)

    (record,) = failovers.of_binding(of)

    assert [step.what for step in record.status.steps] == ["Seen", "Tainted", "Decided"]
    assert record.status.steps[0].message.startswith("Ready is False")


def test_a_drain_after_an_outage_has_no_signs_of_the_outage(root: Client) -> None:
    """The list of all once gave the Drain the signs of the outage, and 455 seconds."""
    log = history([("outage", 40), ("drain", 40)]).store.log
    kept(log)

    outage, drained = failovers.of_fleet().records

    assert [step.what for step in outage.status.steps[:2]] == ["Seen", "Tainted"]
    assert drained.status.reason == "Drain"
    assert drained.status.durations.total == pytest.approx(5, abs=1)


def test_what_is_put_back_on_a_tainted_cluster_and_leaves_again_waited_for_the_first_time_only(root: Client) -> None:
    place, of = (made.ref for made in stored(cluster("member1"), binding("web", "member1")))
    tainted(place)
    evicted(of)
    left = found(of)
    changed(left, left.with_spec(clusters=(TargetCluster("member1", 2),), graceful_eviction_tasks=()))
    evicted(of)

    first, second = failovers.of_binding(of)

    assert "Tainted" in [step.what for step in first.status.steps]
    assert "Tainted" not in [step.what for step in second.status.steps]


def test_a_list_that_does_not_cover_all_says_so(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failovers, "MOST_CHANGES", 3)
    stored(cluster("member1"), binding("a", "member1"), binding("b", "member1"))
    for name in "ab":
        evicted(binding(name, "member1").ref)

    answer = root.get("/apis/failover.lifeboat.io/v1alpha1/failoverrecords", HTTP_ACCEPT="application/json")

    assert [one["status"]["resource"]["name"] for one in answer.json()["items"]] == ["b"]
    assert "covers the 1 bindings that failed over last, of 2" in answer["Warning"]
    assert len(list(pages(10))) == 2


def test_a_binding_of_which_not_all_changes_are_read_is_named(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failovers, "MOST_CHANGES", 1)
    stored(cluster("member1"), binding("web", "member1"))
    evicted(binding("web", "member1").ref)

    page = failovers.page(limit=10)

    assert len(page.records) == 1
    assert page.omissions == (
        "work.karmada.io/ResourceBinding:shop/web has 1 changes or more on record: its failovers before the newest 1 "
        "changes are not listed",
    )
