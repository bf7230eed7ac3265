"""Records of failovers, for any history of one binding: what is reported of one failover belongs to no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.engine.state import Change
from controlplane.insight import record
from controlplane.kinds.binding import TAINT_UNTOLERATED
from controlplane.kinds.failover_record import REMOVED, SEEN, TAINTED, FailoverRecord
from tests.simulation.histories import MEMBERS, PAUSES, STEPS, history, records
from tests.simulation.stories import NGINX_BINDING

HISTORIES = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(PAUSES)), min_size=2, max_size=6)


@settings(max_examples=10)
@given(HISTORIES, st.data())
def test_what_is_reported_of_a_failover_belongs_to_it_alone(
    happenings: list[tuple[str, int]], data: st.DataObject
) -> None:
    """The claims share their histories, because to simulate one takes longest."""
    log = history(happenings).store.log
    found = records(log)

    signs_and_removals_belong_to_one_failover_only(found)
    only_what_taints_evict_has_signs_of_its_cluster(found)
    a_record_is_the_same_whatever_else_of_its_clusters_was_read(log, found, data)


def signs_and_removals_belong_to_one_failover_only(found: Sequence[FailoverRecord]) -> None:
    reported = Counter(
        (step.version, step.what) for one in found for step in one.status.steps if step.what in (SEEN, TAINTED, REMOVED)
    )
    assert set(reported.values()) <= {1}


def only_what_taints_evict_has_signs_of_its_cluster(found: Sequence[FailoverRecord]) -> None:
    for one in found:
        whats = {step.what for step in one.status.steps}
        if one.status.reason == TAINT_UNTOLERATED:
            assert TAINTED in whats
        else:
            assert not whats & {SEEN, TAINTED}, one.status.reason


def a_record_is_the_same_whatever_else_of_its_clusters_was_read(
    log: Sequence[Change], expected: Sequence[FailoverRecord], data: st.DataObject
) -> None:
    """Of the clusters only the changes around the times they named are read; of other failovers' clusters any."""
    own = record.failovers(record.decode_changes(change for change in log if change.ref == NGINX_BINDING))
    refs = record.related_refs(own)
    clusters = [change for change in log if change.ref.name in MEMBERS and change.ref.namespace == ""]
    works = [change for change in log if change.ref in refs and change not in clusters]

    for one, whole in zip(own, expected, strict=True):
        kept = {
            line.version
            for ref, version in record.clusters_read_before([one])
            for line in _needed([change for change in clusters if change.ref == ref and change.version < version])
        }
        more = data.draw(st.sets(st.sampled_from([change.version for change in clusters])))
        chosen = [change for change in clusters if change.version in kept | more]
        assert record.records([one], record.decode_changes([*works, *chosen])) == (whole,)


def _needed(lines: list[Change]) -> list[Change]:
    """Return the last change, and those around the times that it names."""
    (last,) = record.decode_changes(lines[-1:])
    times = record.change_times(last.new)
    return [
        line
        for line in lines
        if line is lines[-1] or any(moment <= line.at < moment + record.WRITTEN_WITHIN for moment in times)
    ]
