"""What scrapers read of clusters: how often their answers changed, and which flap."""

from __future__ import annotations

from django.test import Client

from apps.api import debug
from apps.objects.store import store
from controlplane.apimachinery.meta import Condition
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import Observation
from tests.apps.pages import stored
from tests.apps.test_eviction_metrics import scraped
from tests.builders.objects import cluster


def test_changes_are_counted_per_cluster_and_who_flaps_says_so(root: Client) -> None:
    restless = cluster("member1")
    reported = Condition("Flapping", "True", "AnswersChange")
    stored(restless.with_status(conditions=(*restless.status.conditions, reported)), cluster("member2"))
    row = Observation("member1", "True", turns=179, turned_at=(store().now(),))
    store().apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))

    types, samples = scraped(root)

    first, second = (("cluster_name", "member1"),), (("cluster_name", "member2"),)
    assert (types["lifeboat_cluster_turns"], types["lifeboat_cluster_flapping"]) == ("counter", "gauge")
    assert [samples["lifeboat_cluster_turns_total", one] for one in (first, second)] == [179, 0]
    assert [samples["lifeboat_cluster_flapping", one] for one in (first, second)] == [1, 0]
    assert store().rows(Observation, "key", ["member1"])["member1"] == [row]


def test_a_cluster_that_refuses_access_says_so_although_it_stays_ready(root: Client) -> None:
    """`lifeboat_clusters` counts it as Ready: without a series of its own no alert could know of it."""
    refusing = cluster("member1")
    refused = Condition("AccessLost", "True", "Unauthorized")
    stored(refusing.with_status(conditions=(*refusing.status.conditions, refused)), cluster("member2"))
    debug._last = None

    types, samples = scraped(root)

    assert types["lifeboat_cluster_access_lost"] == "gauge"
    lost = {labels: value for (name, labels), value in samples.items() if name == "lifeboat_cluster_access_lost"}
    assert lost == {(("cluster_name", "member1"),): 1, (("cluster_name", "member2"),): 0}
    assert samples["lifeboat_clusters", (("ready", "True"),)] == 2
