"""Which decisions are worth a message to people, and which are not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.engine.decision import Decision, Event, Put, Save
from controlplane.insight.notices import CRITICAL, FLEET, INFO, WARNING, Notice, notices
from controlplane.kinds.rows import HELD, NO_REFUGE, ON_HOLD, QUEUED
from tests.builders.objects import binding, cluster, eviction

NOW = datetime(2026, 3, 14, 2, 36, tzinfo=UTC)


def ready(was: str, now: str, *, established: bool = True) -> Decision:
    old, new = cluster("member1", ready=was, established=established), cluster("member1", ready=now)
    return Decision(changes=(Put(new, old),), events=(Event(new, "ClusterReadyChanged", "cluster member1 changed"),))


def held(name: str, reason: str = NO_REFUGE, state: str = HELD, *, reported: bool = True) -> Decision:
    about = binding(name, None)
    row = eviction(about, state=state, reason=reason)
    events = (Event(about, "EvictionHeld", "stays on cluster member1: no cluster fits", warning=True),)
    return Decision(changes=(Save(row),), events=events if reported else (Event(about, "Other", ""),))


def test_a_lost_cluster_and_its_return_are_each_one_notice() -> None:
    assert notices([ready("True", "False")]) == (Notice("ClusterDown", "member1", WARNING, "cluster member1 changed"),)
    assert notices([ready("False", "True")]) == (Notice("OutageOver", "member1", INFO, "cluster member1 changed"),)


@pytest.mark.parametrize(("was", "now"), [("True", "True"), ("False", "Unknown"), ("", "False")])
def test_a_cluster_that_is_new_or_stays_lost_is_no_notice(was: str, now: str) -> None:
    assert notices([ready(was, now)]) == ()
    assert notices([ready("False", "True", established=False)]) == ()


def test_evictions_with_nowhere_to_go_are_one_notice_for_each_cluster_with_their_number() -> None:
    (found,) = notices([held("web"), held("shop"), held("mail")])

    assert (found.topic, found.subject, found.severity, found.count) == ("NowhereToGo", "member1", WARNING, 3)
    assert found.text.endswith("web-deployment stays on cluster member1: no cluster fits")


@pytest.mark.parametrize(
    "decision",
    [held("web", reason=ON_HOLD), held("web", state=QUEUED), held("web", reported=False)],
    ids=["held by order", "waits for its turn", "was reported before"],
)
def test_evictions_that_are_held_for_other_reasons_or_still_held_are_no_notice(decision: Decision) -> None:
    assert notices([decision]) == ()


def test_what_stops_all_evictions_is_critical() -> None:
    about = cluster("member1")
    for reason in ("FleetBlind", "EvictionTokensUnavailable", "DatabaseRestored"):
        (found,) = notices([Decision(events=(Event(binding("web", None), reason, "why"),))])
        assert (found.severity, found.subject, found.text) == (CRITICAL, FLEET, "why")
    (certificate,) = notices([Decision(events=(Event(about, "CertificateExpired", "why"),))])
    assert (certificate.severity, certificate.subject) == (WARNING, "member1")
    assert notices([Decision(events=(Event(about, "SyncWorkSucceed", "done"),))]) == ()
