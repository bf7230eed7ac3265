"""The pages of drills: the list, a report, a start behind its dry run, a stop."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from apps.api.health import HEALTH
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.kinds.drill import DRAIN, DRILL, SIMULATED, Drill, DrillSpec, DrillStatus, Finding, Verdict
from tests.apps.pages import stored
from tests.apps.statements import statements
from tests.builders.bare import START, binding, cluster, meta

HTML = "text/html"
FORM = {"mode": SIMULATED, "clusters": "member1", "seconds": "600", "without_place": "0", "healthy": "1"}
STARTED = {"start_time": START, "phase": "Running", "message": "1 of 3 workloads moved, 1 leaving"}


@pytest.fixture(autouse=True)
def checks_are_closed() -> Iterator[None]:
    """Close the connection of health checks, which the first page runs, before the database is dropped."""
    yield
    HEALTH.close()


def drill(name: str, **status: Any) -> Drill:
    spec = DrillSpec(DRAIN, ("member1",), reason="October")
    return Drill("failover.lifeboat.io/v1alpha1", "Drill", meta(name, ""), spec, DrillStatus(**status))


def page(client: Client, path: str, sent: dict[str, str] | None = None, *, code: int = 200) -> str:
    if sent is None:
        got = client.get(path, HTTP_ACCEPT=HTML, follow=True)
    else:
        got = client.post(path, sent, HTTP_ACCEPT=HTML, follow=True)
    assert got.status_code == code, got.content.decode()
    return unescape(got.content.decode())


def drills() -> list[Drill]:
    return list(store().list(DRILL))


def test_the_list_shows_results_and_costs_as_many_queries_for_many_drills(root: Client) -> None:
    assert "No drill is on record" in page(root, "/drills")
    stored(drill("one", phase="Finished", result="Failed", message="Failed: 2 of 3 workloads left member1"))
    page(root, "/drills")

    with statements() as few:
        text = page(root, "/drills")
    stored(*(drill(f"d{number}", **STARTED) for number in range(20)))
    with statements() as many:
        page(root, "/drills")

    assert "Failed: 2 of 3 workloads left member1" in text
    assert 'href="/drills/start"' in text
    assert len(many) == len(few)


def test_the_first_page_and_the_fleet_show_the_last_drill(root: Client) -> None:
    assert "Last drill" not in page(root, "/")
    stored(drill("one", **STARTED))

    text = page(root, "/")
    found = root.get("/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet", HTTP_ACCEPT="application/json").json()

    assert "Last drill" in text
    assert "1 of 3 workloads moved, 1 leaving" in text
    assert (found["status"]["lastDrill"]["name"], found["status"]["lastDrill"]["result"]) == ("one", "Running")


def test_a_report_has_criteria_findings_and_remarks(root: Client) -> None:
    verdicts = (Verdict("maxWithoutPlace", 0, 1, False, "1 workload without a place, at most 0"),)
    findings = (Finding("work.karmada.io/ResourceBinding:shop/web-deployment", "no cluster <fits>"),)
    over = {"phase": "Finished", "result": "Failed", "message": "Failed: …", "finish_time": START}
    stored(drill("one", **over, verdicts=verdicts, findings=findings, remarks=("cordoned: member1",)))

    text = page(root, "/drills/one")

    for shown in (
        "1 workload without a place, at most 0",
        "shop/web-deployment",
        "no cluster <fits>",
        "cordoned: member1",
    ):
        assert shown in text
    assert "/drills/one/stop" not in text  # it is over
    page(root, "/drills/none", code=404)


def test_a_simulated_drill_starts_after_its_dry_run_with_a_reason(root: Client) -> None:
    stored(cluster("member1"))

    shown = page(root, f"/drills/start?{'&'.join(f'{key}={value}' for key, value in FORM.items())}")
    without = page(root, "/drills/start", FORM, code=422)
    started = page(root, "/drills/start", {**FORM, "labels": "app=web", "reason": "October", "concerned": "0"})

    assert "Computes the loss of member1 and keeps the report. Nothing moves." in shown
    line = re.search(r'<code id="kubectl">(.*?)</code>', shown)
    assert line is not None
    *command, document = shlex.split(line[1])
    assert command == ["kubectl", "create", "-f", "-", "<<<"]
    assert json.loads(document)["spec"]["clusters"] == ["member1"]
    assert "Write the reason" in without
    (made,) = drills()
    assert (made.spec.reason, made.spec.mode, made.spec.criteria.max_duration_seconds) == ("October", SIMULATED, 600)
    assert made.spec.selector is not None
    assert f"Drill {made.metadata.name}" in started


def test_clusters_are_chosen_from_those_that_exist_and_several_at_once(root: Client) -> None:
    stored(cluster("member1"), cluster("member2"), cluster("member3"), binding("web", "member1"))
    form = {**FORM, "clusters": ["member1", "member3"], "namespaces": ["shop"]}

    empty = page(root, "/drills/start")
    shown = page(root, f"/drills/start?{urlencode(form, doseq=True)}")
    page(root, "/drills/start", {**form, "reason": "October", "concerned": "0"})

    assert re.search(r'<label class="check" for="id_returns"><input type="checkbox"[^>]+> And return', empty)
    boxes = r'<input type="checkbox" name="(clusters|namespaces)" value="(\w+)"'
    assert re.findall(boxes, empty) == [("clusters", f"member{n}") for n in (1, 2, 3)] + [("namespaces", "shop")]
    assert re.findall(r'hidden" name="clusters" value="(\w+)"', shown) == ["member1", "member3"]
    assert "no workload runs in such a namespace" in page(root, f"/drills/start?{urlencode(FORM)}&namespaces=nowhere")
    assert "Computes the loss of member1, member3" in shown
    assert [(one.spec.clusters, one.spec.namespaces) for one in drills()] == [(("member1", "member3"), ("shop",))]


def test_a_drain_says_first_what_moves_and_what_is_wrong(root: Client) -> None:
    stored(cluster("member1"), cluster("member2"), binding("web", "member1"))
    query = "&".join(f"{key}={value}" for key, value in {**FORM, "mode": DRAIN, "rate": "2"}.items())

    shown = page(root, f"/drills/start?{query}")
    back = page(root, f"/drills/start?{query}&returns=on")
    unknown = page(root, f"/drills/start?{query}".replace("member1", "nowhere"))
    labels = page(root, f"/drills/start?{query}&labels=web")

    assert "stay cordoned" in shown
    assert "The last copy leaves" in shown or "without a place" in shown
    assert "Afterwards they are uncordoned, and the workloads return" in back
    assert "there is no such cluster" in unknown
    assert "Write labels as app=web" in labels
    assert drills() == []


def test_a_running_drill_is_stopped(root: Client) -> None:
    stored(drill("one", **STARTED, workloads=3, moved=1))

    assert "2 workloads have not moved" in page(root, "/drills/one/stop")
    page(root, "/drills/one/stop", {"reason": "enough"})

    assert store().get([Ref(DRILL, "", "one")])[Ref(DRILL, "", "one")].spec.stop


@pytest.mark.parametrize("path", ["/drills/start", "/drills/start?mode=Drain", "/drills/one/stop"])
def test_only_those_who_may_start_and_stop_drills(clerk: Client, path: str) -> None:
    stored(drill("one", **STARTED))

    assert 'href="/drills/start"' not in page(clerk, "/drills")
    assert clerk.get(path, HTTP_ACCEPT=HTML).status_code == 403
