"""The stored note of a decision in words: how replicas were divided, what became of each cluster, and the short
message."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref
from controlplane.kinds.binding import OVERRIDES_APPLIED, TargetCluster
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.filters import CLUSTER_AFFINITY
from controlplane.scheduling.note import Detail, Summary, Term
from controlplane.scheduling.placement_explanation import (
    CHOSEN,
    NOT_CHOSEN,
    REFUSED,
    ClusterAccount,
    ClusterOverrides,
    NotedDecision,
    PlacementExplanation,
    TermTried,
    accounts,
    clusters,
    division,
    document,
    explained,
    message,
    text,
    together,
    with_overrides,
)
from controlplane.scheduling.placement_plan import AGGREGATED, DUPLICATED, DYNAMIC, STATIC
from controlplane.scheduling.schedule import FOLLOWED, FOR_ALL
from tests.builders.objects import START, binding

NAMES = ("a", "b", "c")
ON_A = (TargetCluster("a", 2),)


def mask(*names: str) -> str:
    return b64encode(np.packbits([name in names for name in NAMES]).tobytes()).decode()


def noted(term: Term | None = None, *, names: tuple[str, ...] = NAMES, at: datetime = START, **detail: Any) -> Any:
    """Return a decision that placed replicas on a."""
    given = {"workload": True, "replicas": 3, **detail}
    summary = Summary(at, outcome="Placed", clusters=ON_A)
    return NotedDecision(summary, Detail(terms=(term or Term(),), **given), names)


@pytest.mark.parametrize(
    ("detail", "sentence"),
    [
        ({"workload": False}, "It has no replicas to divide: every chosen cluster gets a copy."),
        ({"division": DUPLICATED}, "Every chosen cluster gets 3 replicas."),
        ({"division": DUPLICATED, "replicas": 1}, "Every chosen cluster gets 1 replica."),
        ({"division": DUPLICATED, "replicas": 0}, "Every chosen cluster gets 0 replicas."),
        ({"division": STATIC, "held": (("a", 1),)}, "3 replicas divided in proportion to static weights."),
        ({"division": DYNAMIC}, "3 replicas divided by free capacity."),
        ({"division": AGGREGATED}, "3 replicas divided among as few clusters as possible."),
        ({"division": AGGREGATED, "held": (("a", 0),)}, "3 replicas divided among as few clusters as possible."),
        (
            {"division": DYNAMIC, "held": (("a", 1), ("b", 1))},
            "3 replicas, of which the targets had 2: these stay if possible, and the difference is divided by free "
            "capacity.",
        ),
        (
            {"division": DYNAMIC, "held": (("a", 1),), "fresh": True},
            "3 replicas divided again by free capacity, because a reschedule was requested.",
        ),
    ],
)
def test_the_division_of_replicas_is_one_sentence(detail: dict[str, Any], sentence: str) -> None:
    assert division(noted(**detail)) == sentence


FOLLOWS = "It is placed where other parts of its application are: a."
FIRST = "It is the first part of its application, placed where all parts (7 pods together) fit."
DOES_NOT_FIT = "Other parts of its application are on b, c, where it does not fit: it is placed alone."
NO_ROOM = "No cluster has room for all 7 pods of its application: it is placed alone."


@pytest.mark.parametrize(
    ("detail", "outcome", "sentence"),
    [
        ({"joined": FOLLOWED, "near": ("b",), "pods": 7}, "Placed", FOLLOWS),
        ({"joined": FOR_ALL, "pods": 7}, "Placed", FIRST),
        ({"near": ("b", "c"), "pods": 7}, "Placed", DOES_NOT_FIT),
        ({"near": ("b", "c")}, "Placed", DOES_NOT_FIT),
        ({"pods": 7}, "Placed", NO_ROOM),
        ({}, "Placed", ""),  # it is its only part
        ({"near": ("b",), "pods": 7, "held": (("a", 2),)}, "Placed", ""),  # it was placed before
        ({"near": ("b",), "pods": 7}, "Unschedulable", ""),
    ],
)
def test_how_the_other_parts_of_an_application_mattered_is_one_sentence(
    detail: dict[str, Any], outcome: str, sentence: str
) -> None:
    part = noted(**detail)

    assert together(msgspec.structs.replace(part, decision=Summary(outcome=outcome, clusters=ON_A))) == sentence


ROOM = Term(
    refused=((CLUSTER_AFFINITY, "it is not selected", mask("c")),),
    chosen=mask("a"),
    shares=(3,),
    weights=(2,),
    seen=(0, 1),
    room=(9, 4),
    quotas=((1, "team/quota"),),
    nodeless=(1,),
)


def said(term: Term, *, reported_at: Mapping[str, datetime] = {}, **detail: Any) -> dict[str, str]:
    return {account.name: account.sentence for account in clusters(noted(term, **detail), reported_at)}


@pytest.mark.parametrize(
    ("term", "detail", "sentences"),
    [
        (
            ROOM,
            {},
            {
                "a": "chosen (room for 9 more; weight 2), gets 3 of 3",
                "b": "feasible (room for 4 more in its ResourceQuota team/quota; the node selector, node affinity and "
                "tolerations of the workload select none of its nodes), not chosen: other clusters are preferred",
                "c": "ClusterAffinity refuses it: it is not selected",
            },
        ),
        (
            Term(chosen=mask("a", "c"), shares=(2, 1)),
            {"held": (("a", 2), ("b", 0)), "reserved": ("c",)},
            {
                "a": "chosen (was a target with 2), gets 2 of 3",
                "b": "feasible (was a target), not chosen: other clusters are preferred",
                "c": "chosen (an eviction had reserved it), gets 1 of 3",
            },
        ),
        (
            Term(chosen=mask("a", "b", "c"), shares=(1,), weights=(5,)),
            {},
            dict.fromkeys(NAMES, "chosen (weight 5), gets 1 of 3"),
        ),
        (Term(chosen=mask("a", "b", "c")), {"workload": False}, dict.fromkeys(NAMES, "chosen")),
        (
            Term(failure="no room"),
            {},
            dict.fromkeys(NAMES, "feasible, not chosen: no room"),
        ),
    ],
    ids=["room", "before", "equal shares", "no replicas", "nothing chosen"],
)
def test_each_cluster_has_a_sentence_with_what_mattered(
    term: Term, detail: dict[str, Any], sentences: dict[str, str]
) -> None:
    assert said(term, **detail) == sentences


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("reported", "age", "words"),
    [
        (START - 90 * SECOND, 90, "room for 9 more, reported 90s before"),
        (START, 0, "room for 9 more, reported 0s before"),
        (START + SECOND, None, "room for 9 more"),  # a newer report came since the decision
        (None, None, "room for 9 more"),
    ],
)
def test_the_age_of_a_report_is_that_at_the_decision(reported: datetime | None, age: int | None, words: str) -> None:
    times = {} if reported is None else {"a": reported, "c": reported}
    found = {one.name: one for one in clusters(noted(ROOM), times)}

    assert (found["a"].capacity_reported_at, found["a"].capacity_age_seconds) == (reported, age)
    assert found["a"].sentence == f"chosen ({words}; weight 2), gets 3 of 3"
    assert (found["b"].capacity_reported_at, found["b"].capacity_age_seconds) == (None, None)
    assert found["c"].capacity_reported_at is None  # refused: its capacity did not matter


def test_a_decision_without_time_has_reports_without_age() -> None:
    part = msgspec.structs.replace(noted(ROOM), decision=Summary())

    assert next(accounts(part, {"a": START})).capacity_age_seconds is None


def test_a_report_of_a_cluster_whose_capacity_was_not_stored_is_not_named() -> None:
    found = next(accounts(noted(Term(seen=(1,), room=(4,))), {"a": START, "b": START}))

    assert (found.name, found.capacity, found.capacity_reported_at, found.capacity_age_seconds) == (
        "a",
        None,
        None,
        None,
    )


def test_an_account_has_the_numbers_that_the_decision_had() -> None:
    term = msgspec.structs.replace(ROOM, refused=((CLUSTER_AFFINITY, "it is not selected", mask("c")),))
    part = noted(term, held=(("a", 2), ("c", 1)), reserved=("a", "b"))

    assert list(accounts(part, {})) == [
        ClusterAccount("a", CHOSEN, score=100, target_before=True, replicas_before=2, capacity=9, weight=2, replicas=3),
        ClusterAccount("b", NOT_CHOSEN, score=50, capacity=4, quota="team/quota", nodeless=True),
        ClusterAccount("c", REFUSED, CLUSTER_AFFINITY, "it is not selected", target_before=True, replicas_before=1),
    ]
    assert next(accounts(noted(Term()), {})).score == 0


def test_the_last_affinity_term_that_was_tried_says_what_became_of_a_cluster() -> None:
    first = Term("near", failure="no room", refused=((CLUSTER_AFFINITY, "it is not selected", mask("a")),))
    detail = Detail(workload=True, replicas=3, terms=(first, Term("far", chosen=mask("a"), shares=(3,))))
    part = NotedDecision(Summary(START, outcome="Placed"), detail, NAMES)

    found = document(part, metadata=ObjectMeta(name="web"), reported_at={})

    assert found.terms == (TermTried("near", "no room"), TermTried("far"))
    assert [one.verdict for one in found.clusters] == [CHOSEN, NOT_CHOSEN, NOT_CHOSEN]


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("has_previous", [True, False])
def test_a_note_whose_list_of_names_is_gone_keeps_its_result(has_names: bool, has_previous: bool) -> None:
    part = noted(ROOM)
    decision, detail = (msgspec.json.encode(one).decode() for one in (part.decision, part.detail))
    earlier = msgspec.json.encode(Summary(outcome="Unschedulable", message="no room")).decode()
    note = PlacementNote("key", decision, detail, previous=earlier if has_previous else "", fleet="1")
    names = FleetNames("1", msgspec.json.encode(NAMES).decode()) if has_names else None

    found = explained(Ref("ResourceBinding", "default", "web"), note, names, {})

    assert found.decision == part.decision
    assert (found.metadata.namespace, found.metadata.name) == ("default", "web")
    assert [one.name for one in found.clusters] == (list(NAMES) if has_names else [])
    assert (found.previous is not None) is has_previous


MANY = [
    ClusterAccount("e", REFUSED, CLUSTER_AFFINITY, "not selected"),
    ClusterAccount("d", REFUSED, "TaintToleration", "tainted"),
    ClusterAccount("c", REFUSED, "TaintToleration", "tainted"),
    ClusterAccount("b", NOT_CHOSEN, capacity=0),
    ClusterAccount("a", NOT_CHOSEN),
]
WHOLE = "no; a: it is feasible; b: room for 0 more; c: tainted; d: tainted; e: not selected"
AND_MORE = len("; and 5 more clusters")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1000, WHOLE),
        (len(WHOLE) + AND_MORE, WHOLE),
        (len(WHOLE) + AND_MORE - 1, WHOLE.replace("; e: not selected", "; and 1 more cluster")),
        (0, "no; and 5 more clusters"),
    ],
)
def test_a_message_names_feasible_clusters_first_and_counts_those_beyond_its_limit(limit: int, expected: str) -> None:
    assert message("no", MANY, limit=limit) == expected


PLACED = Summary(START, "replicas changed", "Placed", clusters=(*ON_A, TargetCluster("b")))
WHEN = f"{START:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize(
    ("summary", "headline"),
    [
        (PLACED, f"placed on a (2), b at {WHEN} because replicas changed"),
        (
            msgspec.structs.replace(PLACED, more_clusters=4),
            f"placed on a (2), b and 4 more at {WHEN} because replicas changed",
        ),
        (Summary(outcome="Placed"), "placed on no cluster"),
        (Summary(START, outcome="Unschedulable", message="no room"), f"Unschedulable at {WHEN}: no room"),
    ],
)
def test_the_first_line_is_the_result_with_its_time_and_cause(summary: Summary, headline: str) -> None:
    for namespace, name in (("default", "default/web"), ("", "web")):
        metadata = ObjectMeta(name="web", namespace=namespace)
        found = PlacementExplanation("v1", "PlacementExplanation", metadata=metadata, decision=summary)
        assert text(found) == f"{name}: {headline}\n"


def test_an_explanation_as_text_has_a_line_for_each_thing_that_mattered() -> None:
    found = PlacementExplanation(
        "v1",
        "PlacementExplanation",
        metadata=ObjectMeta(name="web"),
        decision=Summary(outcome="Placed", clusters=ON_A),
        division="Divided.",
        together="Together.",
        terms=(TermTried("near", "no room"), TermTried("far"), TermTried("", "unnamed")),
        clusters=(ClusterAccount("a", CHOSEN, sentence="chosen"),),
        previous=Summary(outcome="Unschedulable", message="no room"),
        overrides=(ClusterOverrides("a", ("OverridePolicy one", "OverridePolicy two")),),
        override_failures="cluster b: broken",
    )

    lines = text(found).splitlines()
    refused = text(msgspec.structs.replace(found, decision=Summary(outcome="Unschedulable"))).splitlines()

    assert lines == [
        "web: placed on a (2)",
        "Affinity near gave no result: no room",
        "Divided.",
        "Together.",
        "  a: chosen",
        "The copy on a is changed by OverridePolicy one, OverridePolicy two",
        "Override policies fail: cluster b: broken",
        "The decision before: Unschedulable: no room",
    ]
    assert "Divided." not in refused


@pytest.mark.parametrize(
    ("conditions", "failures"),
    [
        ((), ""),
        ((Condition(OVERRIDES_APPLIED, "True", "Applied", "all are applied"),), ""),
        (
            (Condition(OVERRIDES_APPLIED, "False", "ApplyOverridePolicyFailed", "cluster b: broken"),),
            "cluster b: broken",
        ),
    ],
)
def test_override_policies_fail_only_while_the_condition_says_so(
    conditions: tuple[Condition, ...], failures: str
) -> None:
    explanation = PlacementExplanation("v1", "PlacementExplanation")

    found = with_overrides(explanation, binding("web", None).with_status(conditions=conditions), [])

    assert (found.override_failures, found.overrides) == (failures, ())
