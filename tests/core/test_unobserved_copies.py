"""Application failover while clusters are not observed: what was reported before says nothing about that time
[application-failover]."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.apimachinery.names import work_name
from controlplane.clusters import health
from controlplane.clusters.health import Seen
from controlplane.kinds.rows import Observation
from controlplane.kinds.work import ManifestStatus, ResourceIdentifier
from controlplane.settings import Settings
from tests.builders.objects import START, applied, work
from tests.core.test_application_failover import UnhealthyMembers, app

READY = Seen("True", "ClusterReady")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Probed(UnhealthyMembers):
    """Its clusters are probed by `probe` only. `app` tolerates 60 s; an observation is valid for 20 s."""

    def probe(self) -> None:
        known = self.store.rows(Observation, "key", ["member1"]).get("member1", ())
        before = next(iter(known), Observation("member1"))
        self.save(health.observe(before, READY, self.settings, now=self.now))

    def watch(self, seconds: int) -> None:
        """Let time pass with a probe every 10 s."""
        for _ in range(seconds // 10):
            self.pass_seconds(10)
            self.probe()


def unhealthy() -> Probed:
    story = Probed(app())
    story.probe()
    story.report("member1", "Unhealthy")
    return story


def test_a_copy_that_is_observed_leaves_after_its_time() -> None:
    story = unhealthy()

    story.watch(70)

    assert "member1" not in story.placed("web")


def test_time_in_which_its_cluster_was_not_observed_does_not_count() -> None:
    story = unhealthy()

    story.pass_seconds(3600)
    assert story.placed("web") == {"member1": 2}

    story.probe()
    story.watch(30)
    assert story.placed("web") == {"member1": 2}, "20 s were observed before, and 30 s since"
    story.watch(20)
    assert "member1" not in story.placed("web")


def test_a_copy_whose_time_was_nearly_over_is_heard_again_before_it_leaves() -> None:
    story = unhealthy()
    story.watch(30)

    story.pass_seconds(3600)
    story.probe()
    story.pass_seconds(15)
    story.report("member1", "Healthy")
    story.watch(300)

    assert story.placed("web") == {"member1": 2}


def test_a_copy_whose_time_was_over_while_the_workers_were_away_stays_until_it_is_heard_again() -> None:
    """The members process went on for a while, and ended before the workers were back."""
    story = unhealthy()
    (row,) = story.store.rows(Observation, "key", ["member1"])["member1"]
    for seconds in range(10, 100, 10):
        row = health.observe(row, READY, story.settings, now=after(seconds))

    story.now = after(200)
    story.save(row)
    assert story.placed("web") == {"member1": 2}

    story.probe()
    story.report("member1", "Healthy")
    story.watch(300)
    assert story.placed("web") == {"member1": 2}


@pytest.mark.parametrize(("since", "seconds"), [(0, 80), (50, 50), (90, 10), (150, 0)])
def test_unobserved_time_is_counted_from_a_moment_on(since: int, seconds: int) -> None:
    """Probed until 0, valid until 20, and again from 100 on."""
    settings = Settings()
    row = health.observe(Observation("member1"), READY, settings, now=after(0))
    row = health.observe(row, READY, settings, now=after(100))
    row = health.observe(row, READY, settings, now=after(110))

    found = health.unobserved(row, settings, since=after(since), now=after(120))

    assert found == timedelta(seconds=seconds)


def test_the_time_since_the_last_valid_observation_counts_as_unobserved() -> None:
    row = health.observe(Observation("member1"), READY, Settings(), now=after(0))

    assert health.unobserved(row, Settings(), since=after(-10), now=after(50)) == timedelta(seconds=30)


@pytest.mark.parametrize(("last", "leaves"), [("Unhealthy", True), ("Healthy", False), ("Unknown", False)])
def test_a_report_that_the_binding_does_not_have_yet_counts(last: str, *, leaves: bool) -> None:
    """The workers were away and the members process was not: the Work is newer than the status of the binding."""
    story = unhealthy()
    web = story.binding("web")
    reported = ManifestStatus(ResourceIdentifier(group="apps", version="v1", kind="Deployment", name="web"), {}, last)
    name = work_name("Deployment", "web", web.metadata.namespace)
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    copy = work(name, of=web, manifest=manifest, conditions=[applied()])
    story.store.create(copy.with_status(manifest_statuses=(reported,)))

    story.watch(120)

    assert ("member1" not in story.placed("web")) is leaves
