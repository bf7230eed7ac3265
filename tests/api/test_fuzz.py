"""No odd request makes an error of the server, costs more than a few seconds, or leaves memory behind (tests/fuzz)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.api.server import Client, Server
from tests.builders.documents import TABLE, config_map, config_maps
from tests.fuzz.requests import request
from tests.fuzz.run import run, wrong

SEED = int(os.environ.get("LIFEBOAT_FUZZ_SEED", "20261123"))
REQUESTS = 2000
MOST_REFUSED = 0.9  # the part of the requests that may be refused; with more, little but the refusals is tested


@pytest.mark.slow  # 2,000 requests; on a server of their own, whose memory no other test uses
def test_2000_odd_requests_are_answered_by_rule_quickly_and_leave_nothing(tmp_path: Path) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    with Server(tmp_path, name=f"lifeboat_fuzz_{worker}") as own:
        report = run(own, requests=REQUESTS, seed=SEED)

    assert report.problems == [], "\n".join(report.lines)
    refused = sum(count for code, count in report.codes.items() if code >= 400)
    assert report.asked == REQUESTS
    assert refused < MOST_REFUSED * REQUESTS, report.lines
    assert report.codes[429] == 0, report.lines


def test_a_seed_gives_the_same_requests_each_time() -> None:
    assert [request(7, number) for number in range(200)] == [request(7, number) for number in range(200)]


@pytest.mark.parametrize(
    ("status", "media", "body", "why"),
    [
        (500, "application/json", b'{"kind":"Status","code":500,"message":"x"}', "an error 500 of the server"),
        (503, "text/plain", b"away", "an error 503 of the server"),
        (503, "application/json", b'{"kind":"Status","code":503,"message":"x","status":"Failure"}', ""),
        (404, "text/plain", b"no", "an error 404 that is no Status (text/plain)"),
        (404, "application/json", b'{"kind":"Status","code":400,"message":"x"}', "a Status of 400 in an answer of 404"),
        (404, "application/json", b'{"kind":"Status","code":404,"message":"x","status":"Failure"}', ""),
        (200, "application/json", b"{}", ""),
    ],
)
def test_an_answer_against_the_rules_is_noticed(status: int, media: str, body: bytes, why: str) -> None:
    one = request(7, 1)._replace(method="GET", path="/api/v1/namespaces")

    assert wrong(one, status, media, body) == why


def test_an_unknown_include_object_is_refused_before_anything_is_written(api: Client, namespace: str) -> None:
    answer = api.ask("POST", f"{config_maps(namespace)}?includeObject=x", config_map("one"), accept=TABLE)

    assert (answer.status, answer.document["reason"]) == (400, "BadRequest"), answer.body
    assert api.get(config_maps(namespace, "one")).status == 404


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_work_outside_of_the_namespaces_of_clusters_has_a_page(api: Client, namespace: str, method: str) -> None:
    works = f"/apis/work.karmada.io/v1alpha1/namespaces/{namespace}/works"
    made = {"metadata": {"name": "one"}, "spec": {"workload": {"manifests": []}}}
    assert api.post(works, made).status == 201

    page = api.ask(method, f"{works}/one?reason=tidy", accept="text/html")  # a page asks why before it deletes

    assert (page.status, page.type.partition(";")[0]) == (200, "text/html"), page.body


_OWN = "/apis/failover.lifeboat.io/v1alpha1"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (_BINDINGS, {"metadata": {"name": "one"}, "roleRef": _ROLE, "subjects": 1}),
        *((f"{_OWN}/{plural}", {"metadata": ["x"]}) for plural in ("interpretations", "placementreviews", "whatifs")),
        (f"{_OWN}/interpretations", {"spec": {"customization": {"metadata": ["x"]}}}),
    ],
)
def test_a_part_of_the_wrong_type_is_refused(api: Client, path: str, body: object) -> None:
    answer = api.post(path, body)

    assert answer.status in (400, 422), answer.body
    assert answer.document["kind"] == "Status"
