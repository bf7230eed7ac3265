"""Pages of records tell a failover from its first failed probe to its last cleared task, and report it as Markdown."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

from django.test import Client

from apps.failover.begun import PAGE, FailoverChoice, begun_page
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.rows import Observation
from tests.apps.pages import found, stored
from tests.apps.statements import statements
from tests.apps.test_console_queue import HTML, text
from tests.apps.test_records import changed, evicted, now, tainted, turned
from tests.builders.bare import binding, cluster


def outage(*names: str, member: str = "member1") -> dict[str, str]:
    """Let a cluster fail and bindings leave it; return the names of their records."""
    place = stored(cluster(member))[0].ref
    refs = [made.ref for made in stored(*(binding(name, member) for name in names))]
    turned(place, "True")
    turned(place, "False")
    tainted(place)
    for ref in refs:
        evicted(ref, member)
    return {begun.binding.name: begun.name for begun in begun_page(FailoverChoice()).failovers}


def cleared(name: str) -> None:
    old = found(Ref("work.karmada.io/ResourceBinding", "shop", name))
    changed(old, old.with_spec(graceful_eviction_tasks=()))


def test_without_failovers_the_page_says_what_would_appear(root: Client) -> None:
    shown = text(root, "/records")

    assert "No failover is on record" in shown
    assert "kubectl get failoverrecords -A" in shown


def test_an_outage_has_its_lanes_and_each_failover_a_line(root: Client) -> None:
    names = outage("web", "api")
    cleared("web")

    body = root.get("/records", HTTP_ACCEPT=HTML).content.decode()
    shown = text(root, "/records")

    assert "member1 : 2 failovers" in shown
    assert body.count('class="lane ') == 4  # detecting, waiting, releasing of web, scheduling of api
    for name in names.values():
        assert f'href="/records/{name}"' in body
    assert shown.index("Deployment in shop") > 0
    assert shown.count("Running") == 1
    assert shown.count("Finished") == 1


def test_the_first_lane_begins_with_the_first_failed_probe(root: Client) -> None:
    failed = now() - timedelta(seconds=47)
    names = outage("web")
    row = Observation("member1", turns=1, turned_at=(failed,))
    store().apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))

    stamp = f"{failed:%Y-%m-%dT%H:%M:%SZ}"

    assert f'datetime="{stamp}"' in root.get(f"/records/{names['web']}", HTTP_ACCEPT=HTML).content.decode()
    assert f"| member1 | Detecting | {stamp} |" in root.get(f"/records/{names['web']}.md").content.decode()


def test_a_record_has_every_step_with_its_author_and_rule(root: Client) -> None:
    names = outage("web")
    cleared("web")

    shown = text(root, f"/records/{names['web']}")

    for step in ("Seen", "Tainted", "Decided", "Cleared"):
        assert step in shown
    assert "gone:NoExecute" in shown
    assert "Evictions version" in shown
    assert f"kubectl get failoverrecords -n shop {names['web']} -o yaml" in shown
    assert text(root, "/records/web.999999999", status=404)


def test_records_are_filtered_by_the_outage(root: Client) -> None:
    outage("web")
    outage("api", member="member2")

    assert "/records/web." in root.get("/records?cluster=member1", HTTP_ACCEPT=HTML).content.decode()
    assert "/records/api." not in root.get("/records?cluster=member1", HTTP_ACCEPT=HTML).content.decode()
    later = f"{now() + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    assert "No failover matches this filter" in text(root, f"/records?since={later}")
    assert 'since: "soon" is not a time' in text(root, "/records?since=soon", status=400)
    (link,) = set(
        re.findall(r'href="(/records\?cluster=member2[^"]*)"', root.get("/records", HTTP_ACCEPT=HTML).content.decode())
    )
    assert "/records/api." in root.get(link.replace("&amp;", "&"), HTTP_ACCEPT=HTML).content.decode()


def test_the_report_of_an_outage_is_markdown(root: Client) -> None:
    outage("web", "api")

    answer = root.get("/records.md?cluster=member1")

    assert answer["Content-Type"].startswith("text/markdown")
    body = answer.content.decode()
    assert body.startswith("# Failovers of cluster member1\n")
    assert "- Failovers: 2, of which 2 still run" in body
    assert root.get("/records.md?cluster=member9").content.decode().count("No failover is on record") == 1


def test_a_long_list_costs_as_many_statements_as_a_short_one(root: Client) -> None:
    outage("web", "api")
    text(root, "/records")
    with statements() as for_two:
        text(root, "/records")
    for ref in [made.ref for made in stored(*(binding(f"more{number}", "member1") for number in range(30)))]:
        evicted(ref)

    with statements() as for_all:
        shown = text(root, "/records")

    assert "member1 : 32 failovers" in shown
    assert len(for_all) == len(for_two)


def test_a_page_beyond_the_oldest_failover_shows_the_newest_ones(root: Client) -> None:
    names = outage("web")

    body = root.get("/records?before=1", HTTP_ACCEPT=HTML).content.decode()

    assert f'href="/records/{names["web"]}"' in body
    assert "No failover is on record" not in body


def test_failovers_of_a_cluster_are_found_behind_a_page_of_later_ones_of_the_same_workloads(root: Client) -> None:
    names = outage(*(f"b{number:02}" for number in range(PAGE + 1)))
    stored(cluster("member2"))
    for name in names:
        ref = Ref("work.karmada.io/ResourceBinding", "shop", name)
        changed(found(ref), found(ref).with_spec(clusters=(TargetCluster("member2"),)))
        evicted(ref, "member2")

    body = root.get("/records?cluster=member1", HTTP_ACCEPT=HTML).content.decode()
    assert "No failover" not in body
    admin = text(root, "/admin/failovers/?cluster=member1")
    assert "look at older ones" in admin
    assert "Older failovers" in admin
    older = re.search(r'href="(/records\?cluster=member1&amp;before=\d+)">Older', body)
    assert older is not None, body
    body = root.get(unescape(older[1]), HTTP_ACCEPT=HTML).content.decode()

    assert f'href="/records/{names["b20"]}"' in body
