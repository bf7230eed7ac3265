"""What a Work says of its object while the member takes it, holds it, or deletes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.apimachinery.names import WORK_FINALIZER
from controlplane.clusters.lost_objects import wait_before_reapply
from controlplane.clusters.questions import NOT_OURS, REMOVING, Answer, Discard, Ensure, Observe, Question
from controlplane.controllers.execution import Execution
from controlplane.controllers.work_status import WorkStatus, WorkStatusSnapshot
from controlplane.engine import run
from controlplane.engine.decision import Decision, Put, deleting
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.interpret import INTERPRETERS, Unanswered
from controlplane.interpret.customized import Answer as RuleAnswer
from controlplane.kinds.binding import HEALTHY, UNKNOWN
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.event import Event
from controlplane.kinds.work import Work
from controlplane.settings import Settings
from tests.builders.objects import START, applied, cluster, work
from tests.core.test_customized import webhook

REF = Ref(kinds.WORK, "karmada-es-member1", "shop")
MANIFEST = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


@dataclass
class Member:
    """A member that takes its time to delete, and may have had the Namespace before."""

    theirs: bool = False
    held: bool = False
    asked: list[type] = field(default_factory=list)

    def answer(self, questions: Any) -> list[Answer | None]:
        return [None if question is None else self._one(question) for question in questions]

    def _one(self, question: Question) -> Answer:
        self.asked.append(type(question))
        if isinstance(question, Ensure):
            if self.theirs:
                return Answer(409, problem="exists and is not managed by Lifeboat", reason=NOT_OURS)
            self.held = True
            return Answer(200, question.manifest)
        if isinstance(question, Discard):
            if self.theirs or not self.held:
                return Answer(404, problem="gone")
            return Answer(REMOVING, note="the member is still deleting it and waits for the finalizers kubernetes")
        assert isinstance(question, Observe)
        return Answer(200, question.manifest) if self.held and not self.theirs else Answer(404, problem="not found")


class Story:
    """One Work in a store, the two controllers that look after it, and its member."""

    def __init__(self, member: Member) -> None:
        self.now, self.member = START, member
        self.controllers = [Execution(), WorkStatus()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        joined = cluster("member1").with_spec(
            api_endpoint="https://member1", secret_ref=SecretReference("karmada-cluster", "member1")
        )
        ready = joined.with_status(conditions=(Condition("Ready", "True", "ClusterReady", "", START),))
        self.store.create(ready, work(REF.name, manifest=MANIFEST, finalizers=(WORK_FINALIZER,)))
        self.run()

    def run(self) -> None:
        run.run_until_idle(self.controllers, self.store, Settings(), world=run.World(answer=self.member.answer))

    def later(self, seconds: int) -> None:
        """Let time pass, second by second."""
        for _ in range(seconds):
            self.now += timedelta(seconds=1)
            self.run()

    def delete(self) -> None:
        work = self.work
        assert work is not None
        self.store.apply([(None, Decision(changes=(deleting(work, now=self.now),)))], by=Actor("user"))
        self.run()

    def seen(self) -> None:
        """Let the watch of the member tell that the object changed."""
        self.store.mark("work_status", [REF])
        self.run()

    @property
    def work(self) -> Work | None:
        return self.store.objects.get(REF)

    @property
    def applied(self) -> tuple[str, str]:
        assert self.work is not None
        said = condition(self.work.status.conditions, "Applied")
        assert said is not None
        return said.status, said.reason

    def events(self) -> list[tuple[str, str, int]]:
        found = [one for one in self.store.objects.values() if isinstance(one, Event)]
        found = [one for one in found if not one.reason.endswith(("Dispatching", "Succeed"))]
        return [(one.type, one.reason, one.count) for one in found]


def test_an_object_that_its_member_is_deleting_is_removing_and_warns_only_after_a_minute() -> None:
    story = Story(Member())
    assert story.applied == ("True", "AppliedSuccessful")

    story.delete()
    assert story.applied == ("True", "Removing")
    story.later(58)
    assert (story.applied, story.events()) == (("True", "Removing"), [])

    story.later(4)
    assert story.applied == ("False", "CleanupFailed")
    assert [(type_, reason) for type_, reason, _ in story.events()] == [("Warning", "CleanupWorkFailed")]


def test_a_work_goes_as_soon_as_the_watch_reports_that_its_object_is_gone() -> None:
    """Asking again takes as long as the removal has lasted: minutes for a large Namespace."""
    story = Story(Member())
    story.delete()
    story.later(40)
    asked = len(story.member.asked)

    story.member.held = False
    story.seen()

    assert story.work is None
    assert story.events() == []
    assert asked < 12, "a removal is asked for at growing intervals"


def test_a_namespace_that_was_on_the_member_before_is_used_and_said_once() -> None:
    story = Story(Member(theirs=True))
    assert (story.applied, story.events()) == (("True", "NamespaceUsed"), [("Normal", "NamespaceUsed", 1)])
    asked = len(story.member.asked)

    story.later(600)
    story.seen()
    assert (len(story.member.asked), story.applied) == (asked + 1, ("True", "NamespaceUsed"))

    work = story.work
    assert work is not None
    story.store.put(work.with_spec(suspend_dispatching=None).with_meta(generation=2), work)
    story.run()
    assert story.events() == [("Normal", "NamespaceUsed", 1)]

    story.delete()
    assert story.work is None


def test_a_foreign_namespace_that_is_gone_after_an_hour_is_created() -> None:
    story = Story(Member(theirs=True))
    story.member.theirs = False

    story.now += timedelta(hours=1)
    story.run()

    assert (story.member.held, story.applied) == (True, ("True", "AppliedSuccessful"))


def test_whether_a_work_is_dispatched_is_a_condition_and_an_event_each_time_it_turns() -> None:
    story = Story(Member())

    def said() -> tuple[str, list[str]]:
        assert story.work is not None
        dispatching = condition(story.work.status.conditions, "Dispatching")
        assert dispatching is not None
        reported = [one for one in story.store.objects.values() if isinstance(one, Event)]
        return dispatching.status, sorted(one.message for one in reported if one.reason == "WorkDispatching")

    goes, stops = "Work is being dispatched to member clusters.", "Work dispatching is in a suspended state."
    assert said() == ("True", [goes])

    for suspended, expected in ((True, "False"), (False, "True")):
        work = story.work
        assert work is not None
        story.store.put(work.with_spec(suspend_dispatching=suspended), work)
        story.run()
        assert said() == (expected, sorted([goes, stops]))
    assert story.applied == ("True", "AppliedSuccessful")


def test_an_object_that_its_member_keeps_losing_is_applied_ever_more_rarely_until_it_stays() -> None:
    member = Member()
    story = Story(member)

    def ensures() -> int:
        return member.asked.count(Ensure)

    def retained() -> tuple[str, str]:
        said = None if story.work is None else condition(story.work.status.conditions, "Retained")
        assert said is not None
        return said.status, said.reason

    for _ in range(120):  # something on the member deletes it as soon as it is there
        member.held = False
        story.seen()
        story.later(1)
    assert 6 <= ensures() <= 12
    assert retained() == ("False", "ObjectLost")
    assert any("applied again in" in one.message for one in story.store.objects.values() if isinstance(one, Event))

    story.later(130)  # nothing deletes it any more
    assert member.held
    assert story.applied == ("True", "AppliedSuccessful")
    assert retained() == ("True", "ObjectStays")

    before, member.held = ensures(), False
    story.seen()
    assert (ensures(), member.held) == (before + 1, True), "the first loss after that is mended at once"


@pytest.mark.parametrize(
    ("lost_for", "seconds"),
    [(0, 0), (1, 1), (3, 2), (4, 4), (255, 128), (256, 256), (511, 256), (512, 256), (86_400, 256)],
)
def test_a_lost_object_is_left_away_as_long_as_it_has_been_lost_again_and_again(lost_for: int, seconds: int) -> None:
    """Rounded down to a power of two, and never longer than 256 s."""
    story = Story(Member())
    assert story.work is not None
    retained = Condition("Retained", "False", "ObjectLost", "", START)
    applied = Condition("Applied", "False", "ObjectLost", "", START + timedelta(seconds=lost_for))

    work = story.work.with_status(conditions=(applied, retained))

    assert wait_before_reapply(work) == timedelta(seconds=seconds)


def test_an_object_that_is_looked_at_before_its_minute_is_over_still_counts_as_kept_after_it() -> None:
    story = Story(Member())
    for _ in range(2):
        story.member.held = False
        story.seen()
        story.later(1)
    assert story.applied == ("True", "AppliedSuccessful")

    story.later(30)
    story.store.mark("execution", [REF])
    story.later(40)

    assert story.work is not None
    said = condition(story.work.status.conditions, "Retained")
    assert said is not None
    assert (said.status, said.reason) == ("True", "ObjectStays")


def test_a_copy_whose_health_rule_fails_is_judged_again_although_it_does_not_change() -> None:
    """A webhook may have been away just when the copy became healthy: nothing else would ask it again."""
    held = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "status": {"replicas": 1}}
    subject, answer = work(manifest=held, conditions=[applied()]), Answer(200, held)

    def looked(subject: Work, seconds: int) -> tuple[Work, Decision]:
        at = START + timedelta(seconds=seconds)
        decided = WorkStatus().decide(WorkStatusSnapshot(subject), Settings(), now=at, answer=answer)
        return next((cast(Work, put.new) for put in decided.changes if isinstance(put, Put)), subject), decided

    def judged(subject: Work) -> str:
        return subject.status.manifest_statuses[0].health

    INTERPRETERS.set_rules([], [("hooks", webhook("InterpretHealth"))])
    try:
        with pytest.raises(Unanswered) as unanswered:
            looked(subject, 0)
        (question,) = unanswered.value.questions

        INTERPRETERS.learn(question, RuleAnswer(error="no answer within 10 s"))
        unknown, first = looked(subject, 0)
        same, second = looked(unknown, 10)
        INTERPRETERS.forget([question.key])
        INTERPRETERS.learn(question, RuleAnswer((True,)))
        healthy, third = looked(unknown, 20)
    finally:
        INTERPRETERS.set_rules([])

    assert (judged(unknown), first.wake_at) == (UNKNOWN, START + timedelta(seconds=10))
    assert (same, second.wake_at) == (unknown, START + timedelta(seconds=20))
    assert [one.reason for one in first.events if one.warning] == ["InterpretHealthFailed"]
    assert second.events == ()
    assert (judged(healthy), third.wake_at) == (HEALTHY, None)
