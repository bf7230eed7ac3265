"""The page What if: the form, the answer to a small question, and the answer to a large one for its user only."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.failover import what_if_runs
from apps.objects.configuration import configuration
from apps.objects.preview import preview
from apps.objects.store import store
from apps.objects.what_if import effects_of, status_of
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.engine.decision import Put
from controlplane.insight.changes import ClustersDrained, ClustersLost
from controlplane.kinds.drain import Drain, DrainSpec
from controlplane.kinds.what_if import WhatIfStatus
from tests.apps.pages import stored
from tests.apps.statements import statements
from tests.builders.bare import binding, cluster

HTML = "text/html"


@pytest.fixture
def fleet(root: Client, redis_client: Any) -> Client:
    """A browser of root, two clusters, and a binding on the first."""
    stored(cluster("member1"), cluster("member2"), binding("web", "member1"))
    return root


def page(client: Client, url: str, *, status: int = 200) -> str:
    got = client.get(url, HTTP_ACCEPT=HTML)
    assert got.status_code == status
    return unescape(got.content.decode())


def test_the_form_offers_clusters_and_takes_its_values_from_the_url(fleet: Client) -> None:
    text = page(fleet, "/what-if?lost=member2")

    assert '<option value="member1">member1</option>' in text
    assert '<option value="member2" selected>member2</option>' in text
    assert "kubectl create --raw /apis/failover.lifeboat.io/v1alpha1/whatifs" in text


def test_a_small_question_has_its_answer_at_once_at_a_url_of_its_own(fleet: Client) -> None:
    asked = fleet.post("/what-if", {"drained": ["member1"], "effect": "NoExecute"}, HTTP_ACCEPT=HTML)

    assert asked.status_code == 303
    text = page(fleet, asked["Location"])
    assert "moves nothing, 1 without a place, 1 namespace" in text
    assert "Deployment shop/web" in text
    assert "<li>Cluster member1: a Drain moves 0.5 workloads a second from each</li>" in text
    assert '"type":"ClustersDrained"' in text


def test_a_form_is_taken_from_a_browser_with_its_token_and_refused_without(fleet: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(get_user_model().objects.get(username="root"))
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page(strict, "/what-if"))
    assert token is not None
    form = {"drained": ["member1"], "effect": "NoExecute"}

    sent = [urlencode({**form, "csrfmiddlewaretoken": token[1]}, doseq=True), urlencode(form, doseq=True)]

    answers = [strict.post("/what-if", one, "application/x-www-form-urlencoded", HTTP_ACCEPT=HTML) for one in sent]

    assert [answer.status_code for answer in answers] == [303, 403]


POLICY = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: a, namespace: shop}\n"
ALIASES = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 7))
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing chosen": ({}, "Choose at least one change."),
    "a taint without a key": ({"tainted": "member1"}, "Write the key of the taint"),
    "no YAML": ({"policy": "a: [b"}, "This is not YAML"),
    "a key twice": ({"policy": "a: 1\na: 2"}, "This is not YAML"),
    "a number that is none": ({"policy": "a: !!int x"}, "This is not YAML"),
    "bytes": ({"policy": "kind: PropagationPolicy\nspec: !!binary aGk="}, "This is not YAML"),
    "an alias in itself": ({"policy": "a: &a [*a]"}, "This is not YAML"),
    "a list": ({"policy": "- a"}, "Write one policy"),
    "a list that contains itself": ({"policy": POLICY + "spec: &a {rules: [*a]}"}, "an alias contains itself"),
    "deeper than a body may be": ({"policy": "a: " + "[" * 5000}, "nested deeper than 100 levels"),
    "aliases of aliases": ({"policy": POLICY + ALIASES}, "unfold into more than 100000 values"),
    "a cluster that does not exist": ({"lost": ["member9"]}, "member9"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_question_is_explained_beside_its_field(fleet: Client, case: str) -> None:
    sent, message = WRONG[case]

    answer = fleet.post("/what-if", {"effect": "NoExecute", **sent}, HTTP_ACCEPT=HTML)

    assert answer.status_code == 422
    assert message in unescape(answer.content.decode())


def test_a_run_shows_its_progress_and_asks_for_more_until_it_has_ended(fleet: Client) -> None:
    running, failed = WhatIfStatus("Running", progress=0.4), WhatIfStatus("Failed", "it needs more memory")
    begun, ended = (what_if_runs.keep([ClustersLost(("member1",))], one, user="root") for one in (running, failed))

    part = page(fleet, f"/what-if/{begun}?part=run")
    assert "40 % of the evictions" in part
    assert f'hx-get="/what-if/{begun}?part=run"' in part
    text = page(fleet, f"/what-if/{ended}")
    assert "it needs more memory" in text
    assert "hx-get" not in text.partition("<main")[2]


def test_no_other_user_reads_an_answer_and_an_expired_one_is_not_found(fleet: Client) -> None:
    others = what_if_runs.keep([ClustersLost(("member1",))], WhatIfStatus("Running"), user="jane")

    for name in (others, "of-yesterday"):
        assert "ask again at /what-if" in page(fleet, f"/what-if/{name}", status=404)


def test_an_answer_about_many_workloads_costs_as_few_queries_as_one_about_few(fleet: Client) -> None:
    change = [ClustersDrained(("member1",))]
    with statements() as few:
        effects_of(store(), change)
    stored(*(binding(f"web{number}", "member1") for number in range(30)))
    with statements() as many:
        found = effects_of(store(), change)

    assert len(found.without_place) == 31
    assert len(many) == len(few)
    name = what_if_runs.keep(change, status_of(found), user="root")
    with statements() as shown:
        page(fleet, f"/what-if/{name}")
    assert len(shown) < 10


def test_a_write_about_too_many_bindings_is_answered_with_their_number(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.objects.what_if.SMALL", 3)
    stored(cluster("member1"), *(binding(f"web{number}", "member1") for number in range(4)))
    drain = Drain("failover.lifeboat.io/v1alpha1", "Drain", ObjectMeta(name="d"), DrainSpec(cluster="member1"))

    with statements() as asked:
        settings, now = configuration().settings(), store().now()
        (found,) = preview(store(), [Put(drain, None)], settings, is_asked=False, now=now).texts

    assert found.startswith("effects: 4 bindings are on cluster member1; ask for the effects with lifeboat whatif")
    assert len(asked) < 12


def test_a_time_in_a_policy_is_a_text_as_kubectl_reads_it(fleet: Client) -> None:
    policy = (
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n"
        "metadata: {name: a, namespace: shop, creationTimestamp: 2026-01-01T00:00:00Z}\n"
        "spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], placement: {}}"
    )

    assert fleet.post("/what-if", {"policy": policy, "effect": "NoExecute"}, HTTP_ACCEPT=HTML).status_code == 303
