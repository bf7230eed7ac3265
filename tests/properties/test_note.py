"""What a note keeps of a decision tells the same as the decision itself, for every cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given

from controlplane.kinds.binding import ResourceBindingSpec
from controlplane.kinds.cluster import Cluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.filters import Refusal
from controlplane.scheduling.note import MESSAGE_KEPT, PLACED, Notes
from controlplane.scheduling.placement_explanation import (
    CHOSEN,
    NOT_CHOSEN,
    REFUSED,
    ClusterAccount,
    explained,
    message,
    text,
)
from controlplane.scheduling.placement_explanation import PlacementExplanation as Document
from controlplane.scheduling.question import Neighbours
from controlplane.scheduling.refusals import refusals
from controlplane.scheduling.schedule import Placed, Verdict
from tests.builders.objects import bound
from tests.properties.test_schedule import SETTINGS, asked, bindings, clusters, neighbours, without_blocker

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def reported(members: list[Cluster], wanted: ResourceBindingSpec, verdict: Verdict) -> Document:
    """Return the document of the note that is kept of a verdict."""
    binding = bound(wanted)
    notes = Notes(Fleet.of(members, settings=SETTINGS))
    note = notes.note(binding, verdict, trigger="placement changed", before=None, now=NOW)
    return explained(binding.ref, note, notes.names, {})


def accounts(members: list[Cluster], wanted: ResourceBindingSpec) -> dict[str, ClusterAccount]:
    return {one.name: one for one in reported(members, wanted, asked(members, wanted)).clusters}


@given(clusters(), bindings(), neighbours)
def test_a_note_refuses_the_same_clusters_for_the_same_reasons(
    members: list[Cluster], wanted: ResourceBindingSpec, near: Neighbours
) -> None:
    verdict = asked(members, wanted, neighbours=near)

    noted = {
        one.name: Refusal(one.filter, one.value)
        for one in reported(members, wanted, verdict).clusters
        if one.verdict == REFUSED
    }

    assert noted == refusals(verdict.explanation, -1)


@given(clusters(), bindings())
def test_refused_chosen_and_not_chosen_are_all_clusters_and_chosen_is_the_result(
    members: list[Cluster], wanted: ResourceBindingSpec
) -> None:
    verdict = asked(members, wanted)

    document = reported(members, wanted, verdict)

    assert [one.name for one in document.clusters] == sorted(one.metadata.name for one in members)
    assert {one.verdict for one in document.clusters} <= {REFUSED, CHOSEN, NOT_CHOSEN}
    assert all(one.sentence for one in document.clusters)
    placed = {one.name: one.replicas for one in document.clusters if one.verdict == CHOSEN and one.replicas}
    if isinstance(verdict.outcome, Placed):
        assert document.decision.outcome == PLACED
        assert placed == {one.name: one.replicas for one in verdict.outcome.clusters}
    else:
        assert document.decision.outcome == verdict.outcome.reason
        assert not any(one.verdict == CHOSEN for one in document.clusters)
    assert all(f"  {one.metadata.name}: " in text(document) for one in members)


@given(clusters(), bindings())
def test_removing_what_a_note_names_ends_that_refusal(members: list[Cluster], wanted: ResourceBindingSpec) -> None:
    for name, one in accounts(members, wanted).items():
        if one.verdict != REFUSED:
            continue
        after = accounts(*without_blocker(members, wanted, name, Refusal(one.filter, one.value)))[name]

        assert (after.filter, after.value) != (one.filter, one.value)


@given(clusters(), bindings())
def test_a_refusal_says_a_sentence_per_cluster_within_its_length(
    members: list[Cluster], wanted: ResourceBindingSpec
) -> None:
    verdict = asked(members, wanted)
    document = reported(members, wanted, verdict)
    if isinstance(verdict.outcome, Placed):
        return

    whole = message("no room", document.clusters)
    cut = message("no room", document.clusters, limit=100)

    assert all(f"; {one.metadata.name}: " in whole for one in members)
    assert len(whole) <= MESSAGE_KEPT
    assert len(cut) <= 100
