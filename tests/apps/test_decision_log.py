"""Log lines about decisions and refused writes, in the process that made them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.objects.decision_log import LONGEST_LIST, log_outcomes
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Drop, Event, Put, Save
from controlplane.engine.state import Actor, Claim, Outcome
from controlplane.kinds.rows import HELD, QUEUED, Observation
from tests.builders.objects import binding, cluster, eviction

WEB = binding("web", None)
BY = Actor("evictions", controller=True)


def lines(caplog: pytest.LogCaptureFixture, logger: str = "lifeboat.decisions") -> list[dict[str, Any]]:
    """Return the lines of one logger."""
    records = [one for one in caplog.records if one.name == logger]
    return [line for one in records for line in getattr(one, "lines", [vars(one)])]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def test_a_decision_is_logged_with_its_rule_versions_events_queue_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    row = eviction(WEB, state=HELD)
    decision = Decision(changes=(Put(WEB, WEB), Save(row)), events=(Event(WEB, "Held", ""),), reason="Rule", cause=5)

    log_outcomes([(Claim("evictions", WEB.ref, 1), decision)], [Outcome("", (9, 0))], by=BY, seconds=0.0125)

    (line,) = lines(caplog)
    assert line == {
        "message": f"evictions: {WEB.ref} Rule",
        "controller": "evictions",
        "ms": 12.5,
        "ref": str(WEB.ref),
        "reason": "Rule",
        "versions": [9],
        "events": ["Held"],
        "queue": {"Held": 1},
        "cause": 5,
    }


@pytest.mark.parametrize(
    "decision",
    [
        Decision(changes=(Save(eviction(WEB)),)),  # a fan-out has no claim: the cluster that was lost is its origin
        Decision(changes=(Save(Observation("member1")),), events=(Event(WEB, "Held", ""),)),
    ],
)
def test_a_decision_without_a_claim_that_changes_no_object_names_what_it_is_about(
    decision: Decision, caplog: pytest.LogCaptureFixture
) -> None:
    log_outcomes([(None, decision)], [Outcome("", (0,))], by=BY, seconds=1)

    (line,) = lines(caplog)
    assert line["ref"] == str(WEB.ref)


def test_items_of_the_eviction_queue_are_counted_by_their_new_state(caplog: pytest.LogCaptureFixture) -> None:
    saved = [Save(eviction(WEB, f"member{number}", state=QUEUED)) for number in range(2)]
    decision = Decision(changes=(*saved, Drop(eviction(WEB, "member3"))))

    log_outcomes([(None, decision)], [Outcome("", (0, 0, 0))], by=BY, seconds=1)

    (line,) = lines(caplog)
    assert line["queue"] == {"Queued": 2, "Removed": 1}


def test_what_changes_nothing_and_what_is_stored_too_often_has_no_line(caplog: pytest.LogCaptureFixture) -> None:
    nothing, probe = Decision(changes=(Put(WEB, WEB),)), Decision(changes=(Save(Observation("member1")),))

    log_outcomes([(None, nothing), (None, probe)], [Outcome("", (0,)), Outcome("", (0,))], by=BY, seconds=1)

    assert lines(caplog) == []


def test_a_lost_decision_is_logged_with_what_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    log_outcomes([(None, Decision(changes=(Put(WEB, WEB),)))], [Outcome("spec changed")], by=BY, seconds=1)

    (line,) = lines(caplog, "lifeboat.refused")
    assert (line["controller"], line["ref"], line["why"]) == ("evictions", str(WEB.ref), "spec changed")
    assert lines(caplog) == []


def test_a_decision_about_many_objects_names_some_and_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    many = tuple(Put(cluster(f"member{number}"), None) for number in range(LONGEST_LIST + 6))

    log_outcomes([(None, Decision(changes=many))], [Outcome("", tuple(range(1, 27)))], by=Actor("ann"), seconds=1)

    (line,) = lines(caplog)
    assert (line["actor"], line["ref"]) == ("ann", str(Ref(many[0].new.ref.kind, "", "member0")))
    assert (len(line["changed"]), line["changed_more"]) == (LONGEST_LIST, 5)
    assert (len(line["versions"]), line["versions_more"]) == (LONGEST_LIST, 6)


@pytest.mark.django_db(transaction=True)
def test_a_write_that_the_admin_refuses_has_a_line_with_the_user(
    root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    document = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: missing}\n"

    page = root.post("/admin/objects/object/add/", {"document": document})

    assert page.status_code == 200
    (line,) = lines(caplog, "lifeboat.refused")
    assert (line["actor"], line["way"], line["code"]) == ("root", "Admin", 404)
    assert 'namespaces "missing" not found' in line["why"]
