"""A cluster that is observed: its objects are compared, and none is written or deleted."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.apimachinery.names import OBSERVE_ANNOTATION
from controlplane.clusters.comparing import comparison
from controlplane.clusters.questions import DIFFERENT, MARKS, MISSING, SAME, Answer, Compare, Discard, Ensure, Question
from controlplane.engine.decision import Decision, Put, deleting
from controlplane.engine.state import Actor
from controlplane.kinds.work import OBSERVED
from tests.core.test_execution import REF, Member, Story

CLUSTER = Ref(kinds.CLUSTER, "", "member1")
HELD: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        **{"name": "web", "uid": "1", "resourceVersion": "7", "managedFields": [{"manager": "karmada"}]},
        "annotations": {"resourcetemplate.karmada.io/uid": "of-karmada"},
        "labels": {"app": "web"},
    },
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
    "status": {"readyReplicas": 2},
}


class Observed(Member):
    """A member whose objects are compared."""

    def _one(self, question: Question) -> Answer:
        if isinstance(question, Compare):
            self.asked.append(Compare)
            return Answer(200, reason=SAME, note="An apply would change nothing.")
        return super()._one(question)


class Import(Story):
    """A story that begins with an observed cluster."""

    def observe(self, value: str) -> None:
        found = self.store.get([CLUSTER])[CLUSTER]
        annotations = {**found.metadata.annotations, OBSERVE_ANNOTATION: value}
        put = Put(found.with_meta(annotations=annotations), found)
        self.store.apply([(None, Decision(changes=(put,)))], by=Actor("admin"))
        self.run()


@pytest.fixture
def story() -> Import:
    return Import(Observed())


def test_a_cluster_that_is_observed_is_compared_and_not_written(story: Import) -> None:
    story.observe("true")
    story.member.asked.clear()
    story.later(301)

    applied = condition(story.store.get([REF])[REF].status.conditions, "Applied")

    assert Ensure not in story.member.asked
    assert Compare in story.member.asked
    assert applied is not None
    assert (applied.status, applied.reason) == ("Unknown", OBSERVED)
    assert applied.message == "An apply would change nothing."


def test_the_objects_are_written_when_observing_ends(story: Import) -> None:
    story.observe("true")
    story.member.asked.clear()
    story.observe("false")

    applied = condition(story.store.get([REF])[REF].status.conditions, "Applied")
    assert Ensure in story.member.asked
    assert applied is not None
    assert applied.status == "True"


def test_a_work_that_is_deleted_while_observing_leaves_the_object(story: Import) -> None:
    story.observe("true")
    work = story.store.get([REF])[REF]
    story.store.apply([(None, Decision(changes=(deleting(work, now=story.now),)))], by=Actor("admin"))
    story.run()

    assert not story.store.get([REF])
    assert Discard not in story.member.asked
    assert story.member.held


def edited(**changes: Any) -> dict[str, Any]:
    return {**HELD, **changes}


@pytest.mark.parametrize(
    ("held", "applied", "reason", "note"),
    [
        (None, {}, MISSING, "would be created"),
        (HELD, HELD, SAME, "change nothing."),
        (HELD, edited(status={}, metadata={**HELD["metadata"], "resourceVersion": "8", "generation": 2}), SAME, ""),
        (
            HELD,
            edited(metadata={**HELD["metadata"], "annotations": {"resourcetemplate.karmada.io/uid": "of-lifeboat"}}),
            MARKS,
            "nothing but 1 label or annotation of the control plane",
        ),
        (
            HELD,
            edited(metadata={**HELD["metadata"], "labels": {"app": "web", "karmada.io/managed": "true", "team": "a"}}),
            DIFFERENT,
            "change metadata.labels.team.",
        ),
        (HELD, edited(spec={**HELD["spec"], "replicas": 3}), DIFFERENT, "change spec.replicas."),
        (edited(spec={"values": [{"on": 1}]}), edited(spec={"values": [{"on": True}]}), DIFFERENT, "spec.values[0].on"),
        (
            HELD,
            edited(spec={"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}),
            DIFFERENT,
            "spec.template.spec.containers[0].image",
        ),
        (HELD, edited(spec={f"field{number}": 1 for number in range(20)}), DIFFERENT, "and 14 more"),
    ],
)
def test_a_comparison_names_what_an_apply_would_change(held: Any, applied: Any, reason: str, note: str) -> None:
    found = comparison(held, applied)

    assert (found.code, found.reason) == (200, reason)
    assert note in found.note
