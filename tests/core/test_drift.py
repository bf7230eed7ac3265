"""What a user changes on a member in fields of a manifest: what counts, what is put back, and when [member-drift]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Condition, condition
from controlplane.clusters.drift import described, differences
from controlplane.clusters.questions import Answer, Ensure
from controlplane.controllers.execution import Execution, ExecutionSnapshot
from controlplane.controllers.work_status import WorkStatus, WorkStatusSnapshot
from controlplane.engine.decision import Decision
from controlplane.kinds.work import ManifestStatus, Work
from controlplane.settings import Settings
from tests.builders import objects
from tests.builders.objects import START, cluster

Document = dict[str, Any]

CONTAINER = {
    "name": "main",
    "image": "nginx:1",
    "resources": {"limits": {"cpu": "1"}},
    "env": [{"name": "A", "value": "1"}],
}


def deployment(replicas: int = 2, **container: Any) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{**CONTAINER, **container}]}}},
    }


def held(**spec: Any) -> Document:
    """The Deployment as a member has it: with defaults, status, and what other controllers add."""
    found = deployment()
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "labels": {"app": "web", "theirs": "x"}}
    pod = {"containers": [{**CONTAINER, "imagePullPolicy": "Always"}, {"name": "sidecar"}], "restartPolicy": "Always"}
    found["spec"] |= {"template": {"spec": pod}, "strategy": {"type": "RollingUpdate"}, **spec}
    return {**found, "status": {"replicas": 2}}


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (deployment(), held()),
        (deployment(resources={"limits": {"cpu": "1000m"}}), held()),
        (deployment(args=[], workingDir=""), held()),
        ({"kind": "Secret", "stringData": {"a": "b"}}, {"kind": "Secret", "data": {"a": "Yg=="}}),
        ({"spec": {"ports": [{"port": 80}]}}, {"spec": {"ports": [{"port": 80, "nodePort": 30000}]}}),
    ],
    ids=["added by others", "quantity", "empty", "stringData", "set by the member"],
)
def test_what_others_add_and_what_a_member_writes_in_its_way_is_no_drift(wanted: Document, there: Document) -> None:
    assert differences(wanted, there) == []


@pytest.mark.parametrize(
    ("wanted", "there", "text"),
    [
        (deployment(), held(replicas=5), "spec.replicas is 5 instead of 2"),
        (
            deployment(image="nginx:2"),
            held(),
            "template.spec.containers[main].image is nginx:1 instead of nginx:2",
        ),
        (deployment(image="nginx:2"), held(template={}), "spec.template.spec was removed"),
        (deployment(env=[{"name": "A", "value": "x"}]), held(), "containers[main].env[A].value was changed"),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {}}, "metadata.labels.a was removed"),
        ({"spec": {"on": True}}, {"spec": {"on": False}}, "spec.on is false instead of true"),
        ({"spec": {"list": [1, 2]}}, {"spec": {"list": [1]}}, "spec.list was changed"),
        ({"spec": {"list": [1, 2]}}, {"spec": {"list": [1, 3]}}, "spec.list[1] is 3 instead of 2"),
        ({"data": {"password": "x"}}, {"data": {"password": "y"}}, "data.password was changed"),
        ({"kind": "Secret", "type": "Opaque"}, {"kind": "Secret", "type": "z"}, "type was changed"),
    ],
)
def test_a_difference_is_reported_by_its_path_and_without_secrets(wanted: Document, there: Document, text: str) -> None:
    assert text in described(differences(wanted, there), kind=wanted.get("kind", ""))


def test_of_many_differences_the_first_are_named_and_the_others_counted() -> None:
    wanted = {"spec": {f"f{number}": 1 for number in range(12)}}

    assert described(differences(wanted, {"spec": {}}), kind="").endswith("spec.f5 was removed and 4 more")


# What follows from it

REPAIR, REPORT = Settings(), Settings(drift="Report")
DRIFT = "spec.replicas is 5 instead of 2"
MEMBER = cluster("member1").with_spec(api_endpoint="https://member1")
APPLIED = Condition("Applied", "True", "AppliedSuccessful", "", START, 1)


def work(*conditions: Condition, annotation: str = "", generation: int = 1) -> Work:
    annotations = {"failover.lifeboat.io/drift": annotation} if annotation else {}
    return objects.work(
        manifest=deployment(), conditions=(APPLIED, *conditions), generation=generation, annotations=annotations
    )


def observed(subject: Work, drift: str, settings: Settings = REPAIR, *, at: float = 0.0) -> tuple[Work, Decision]:
    """Return the Work and the decision after the watch has reported an object that differs so."""
    now, answer = START + timedelta(seconds=at), Answer(200, held(), drift=drift)
    decided = WorkStatus().decide(WorkStatusSnapshot(subject), settings, now=now, answer=answer)
    return changed(decided, subject), decided


def applied(subject: Work, settings: Settings = REPAIR, *, at: float = 0.0, **more: Any) -> tuple[Work, Decision]:
    """Return the Work and the decision of the controller that applies, which asks the member if it has to."""
    now, snapshot = START + timedelta(seconds=at), ExecutionSnapshot(subject, MEMBER)
    question = Execution().question(snapshot, settings, now=now)
    answer = Answer(200, **more) if isinstance(question, Ensure) else None
    decided = Execution().decide(snapshot, settings, now=now, answer=answer)
    return changed(decided, subject), decided


def changed(decided: Decision, subject: Work) -> Work:
    found: Any = decided.changes[-1].new if decided.changes else subject  # type: ignore[union-attr]
    return found


def state(subject: Work, type_: str) -> tuple[str, str]:
    found = condition(subject.status.conditions, type_)
    return ("", "") if found is None else (found.status, found.reason)


def reasons(decided: Decision) -> set[str]:
    return {event.reason for event in decided.events}


def test_a_change_is_put_back_at_once_and_its_event_has_the_difference() -> None:
    seen, _ = observed(work(), DRIFT)
    assert state(seen, "Drifted") == ("True", "ObjectChanged")
    assert state(seen, "Applied") == ("True", "AppliedSuccessful"), "the copy still counts"

    done, decided = applied(seen)

    assert state(done, "Drifted") == ("False", "PutBack")
    (event,) = [one for one in decided.events if one.reason == "PutBack"]
    assert event.message == f"Changed on the member: {DRIFT}. It was put back."
    quiet, nothing = observed(done, "")
    assert state(quiet, "Drifted") == ("False", "PutBack")
    assert "PutBack" not in reasons(nothing)


def test_an_event_has_the_whole_difference_whatever_its_values_contain() -> None:
    drift = "metadata.labels.note is a. It is b instead of c"

    _, decided = applied(observed(work(), drift)[0])

    assert [one.message for one in decided.events if one.reason == "PutBack"] == [
        f"Changed on the member: {drift}. It was put back."
    ]


def test_a_change_that_was_only_reported_is_put_back_once_that_is_wanted() -> None:
    reported, _ = observed(work(), DRIFT, REPORT)

    _, decided = applied(reported, REPAIR)

    assert [one.message for one in decided.events if one.reason == "PutBack"] == [
        f"Changed on the member: {DRIFT}. It was put back."
    ]


def test_a_repair_that_the_watch_reports_before_the_member_answers_keeps_its_event() -> None:
    seen, _ = observed(work(), DRIFT)

    early, _ = observed(seen, "")
    done, decided = applied(early)

    assert state(done, "Drifted") == ("False", "PutBack")
    assert "PutBack" in reasons(decided)


def test_an_apply_that_changed_nothing_was_no_repair() -> None:
    seen, _ = observed(work(), DRIFT)

    done, decided = applied(seen, unchanged=True)

    assert state(done, "Drifted") == ("False", "ChangeGone")
    assert "PutBack" not in reasons(decided)


@pytest.mark.parametrize(
    ("annotation", "settings", "status"),
    [("", REPORT, "ChangeReported"), ("Report", REPAIR, "ChangeReported"), ("Repair", REPORT, "ObjectChanged")],
)
def test_a_change_is_only_reported_where_that_is_wanted_and_the_annotation_beats_the_setting(
    annotation: str, settings: Settings, status: str
) -> None:
    seen, decided = observed(work(annotation=annotation), DRIFT, settings)

    assert state(seen, "Drifted") == ("True", status)
    after, _ = applied(seen, settings)
    if status == "ChangeReported":
        assert reasons(decided) >= {"ChangeReported"}
        assert after is seen, "the member is not written to"
        again, later = observed(after, DRIFT, settings, at=5)
        assert "ChangeReported" not in reasons(later)
        gone, _ = observed(again, "", settings, at=9)
        assert state(gone, "Drifted") == ("False", "ChangeGone")
    else:
        assert state(after, "Drifted") == ("False", "PutBack")


def test_a_controller_that_changes_it_again_and_again_is_waited_for_longer_and_longer() -> None:
    subject = seen = work()
    waits, at, reports = list[float](), 0.0, set[str]()
    for _ in range(12):
        seen, decided = observed(subject, DRIFT, at=at)
        reports |= {event.message for event in decided.events if event.reason == "ObjectChanged"}
        waiting, decided = applied(seen, at=at)
        begun, wake = at, decided.wake_at
        if waiting is seen and wake is not None:
            at = (wake - START).total_seconds()
            waiting, _ = applied(seen, at=at)
        waits.append(at - begun)
        subject = waiting
        at += 1.0

    assert waits[0] == 0.0
    assert waits == sorted(waits)
    assert waits[-1] == 256.0
    assert any("something on the member changes it again" in message for message in reports)
    retained = condition(seen.status.conditions, "Retained")
    assert retained is not None
    assert "It is put back in 256 s" in retained.message


def test_an_object_that_stays_for_a_minute_is_forgiven() -> None:
    done, decided = applied(observed(work(), DRIFT)[0])
    assert decided.wake_at == START + timedelta(seconds=60)

    kept, _ = applied(done, at=60)

    assert state(kept, "Retained") == ("True", "ObjectStays")
    seen, _ = observed(kept, DRIFT, at=100)
    assert state(applied(seen, at=100)[0], "Drifted") == ("False", "PutBack"), "at once, as the first time"


@pytest.mark.parametrize(
    "subject",
    [
        work(generation=2),
        work(Condition("Applied", "False", "AppliedFailed", "", START, 1)),
        work(Condition("Applied", "True", "NamespaceUsed", "", START, 1)),
    ],
    ids=["a newer manifest", "not applied", "a Namespace of the member"],
)
def test_what_was_not_applied_so_cannot_have_drifted(subject: Work) -> None:
    conditions = {one.type: one for one in subject.status.conditions}
    subject = subject.with_status(conditions=tuple(conditions.values()))

    assert state(observed(subject, DRIFT)[0], "Drifted") == ("", "")


@pytest.mark.parametrize(
    ("subject", "settings", "asks"),
    [
        (work(), REPORT, True),
        (work(generation=2), REPAIR, False),
        (work(), Settings(controllers=("work_status",)), False),
    ],
    ids=["applied", "a newer manifest", "only observing after a restore"],
)
def test_a_member_is_asked_about_a_difference_of_what_was_applied_unless_it_is_only_observed(
    subject: Work, settings: Settings, asks: bool
) -> None:
    question = WorkStatus().question(WorkStatusSnapshot(subject), settings, now=START)

    assert question is not None
    assert question.asks == asks


def test_an_object_that_has_finished_and_is_gone_differs_no_more() -> None:
    """Nothing looks at it again, so it would count as changed for ever."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": "default"}}
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    reported = Condition("Drifted", "True", "ChangeReported", DRIFT, START)
    subject = objects.work("once", manifest=job, conditions=(APPLIED, reported)).with_status(
        manifest_statuses=(ManifestStatus(status=complete),)
    )

    decided = WorkStatus().decide(WorkStatusSnapshot(subject), REPORT, now=START, answer=Answer(404))

    gone = changed(decided, subject)
    assert state(gone, "Applied") == ("True", "Finished")
    assert state(gone, "Drifted") == ("False", "ChangeGone")
