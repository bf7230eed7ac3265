"""The kubectl lines of pages are one command each, whatever is in the URL or in the name of an object."""

from __future__ import annotations

import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.test import Client
from msgspec.structs import replace

from apps.objects.kubectl_lines import delete_line, write_line
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.cluster import Taint
from controlplane.kinds.template import Template
from tests.apps.guarded_acts import BINDING, MEMBER1, fleet
from tests.apps.pages import change, found, stored
from tests.apps.test_records import evicted
from tests.builders.bare import meta

HOSTILE = "x'; touch pwned; $(touch pwned) #"
TAINT = {"key": "example.com/a", "effect": "NoSchedule"}
CASES: list[tuple[str, dict[str, str]]] = [
    ("/queue", {"cluster": HOSTILE}),
    ("/queue", {"namespace": HOSTILE}),
    ("/records", {"namespace": HOSTILE}),
    ("/clusters/member1/taint", {**TAINT, "key": HOSTILE}),
    ("/clusters/member1/taint", {**TAINT, "value": HOSTILE}),
    ("/queue/order", {"verb": "Hold", "item": f"default/{HOSTILE}.member1"}),
    ("/queue/order", {"verb": "Hold", "item": f"{HOSTILE}/web.member1,default/web0-deployment.member1"}),
    ("/queue/order", {"verb": "Hold", "item": f"default/web0-deployment.{HOSTILE}"}),
    *(("/queue/order", {"verb": "Hold", "everything": "yes", name: HOSTILE}) for name in ("cluster", "namespace")),
    ("/queue/order", {"verb": "Hold", "everything": "yes", "reason_of": HOSTILE}),
]


def run(line: str, place: Path) -> list[str]:
    """Paste a line into a shell in which kubectl writes its arguments; return what was written, and the files left."""
    kubectl = 'kubectl() { printf "<%s>" "$@" >&2; }\n'
    done = subprocess.run(["bash", "-c", kubectl + line], cwd=place, capture_output=True, text=True, timeout=20)
    return [done.stderr, *(one.name for one in place.iterdir())]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("path", "query"), CASES)
def test_a_line_runs_nothing_that_a_link_brings_along(
    root: Client, tmp_path: Path, path: str, query: dict[str, str]
) -> None:
    fleet(1)
    page = root.get(f"{path}?{urlencode(query)}", HTTP_ACCEPT="text/html")
    shown = re.search(r'<code id="kubectl">(.*?)</code>', page.content.decode(), re.DOTALL)
    assert shown is not None, page.content

    said, *files = run(unescape(shown[1]), tmp_path)

    assert files == []
    assert said.startswith("<"), said  # kubectl was called


def hostile_fleet() -> None:
    """Store a cluster with a taint, a workload that has left member1, and a role, all with such a text as name."""
    fleet(1)
    tainted = found(MEMBER1)
    change(tainted, tainted.with_spec(taints=(Taint(HOSTILE, "NoSchedule"),)))
    web = found(BINDING)
    named = replace(web, metadata=replace(web.metadata, name=HOSTILE, uid="hostile"))
    (made,) = stored(named.with_spec(resource=replace(web.spec.resource, name=HOSTILE)))
    evicted(made.ref)
    left = found(made.ref)
    change(left, left.with_spec(clusters=(TargetCluster("member2", 2),)))
    stored(Template("rbac.authorization.k8s.io/v1", "ClusterRole", meta(HOSTILE, ""), {"rules": []}))


NAME, BINDINGS = quote(HOSTILE, safe=""), "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
NAMED: dict[str, tuple[str, str]] = {  # with the method and the path of a request
    "untaint": ("GET", f"/clusters/member1/untaint?{urlencode({'key': HOSTILE, 'effect': 'NoSchedule'})}"),
    "workload": ("GET", f"/bindings/default/{NAME}"),
    "revert": ("GET", f"/bindings/default/{NAME}/revert"),
    "rebalance": ("GET", f"/bindings/default/{NAME}/rebalance"),
    "a deletion in the API": ("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}"),
    "an action in the API": ("POST", f"{BINDINGS}/{NAME}/revert"),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("case", NAMED)
def test_a_line_takes_the_name_of_a_stored_object_as_one_word(root: Client, tmp_path: Path, case: str) -> None:
    hostile_fleet()
    method, path = NAMED[case]
    page = root.generic(method, path, content_type="application/json", headers={"Accept": "text/html"})
    pattern = r'<code id="kubectl">(.*?)</code>|the same with kubectl: (.*?)</p>'
    shown = re.search(pattern, page.content.decode(), re.DOTALL)
    assert shown is not None, page.content.decode()

    said, *files = run(unescape(shown[1] or shown[2]), tmp_path)

    assert files == []
    assert said.startswith("<"), said
    if case != "rebalance":  # its line has the name in a document
        assert HOSTILE in said


LINES: dict[str, Any] = {
    "a deletion": delete_line([Ref("rbac.authorization.k8s.io/ClusterRole", "", HOSTILE), Ref(CLUSTER, "", "member1")]),
    "a large object": write_line({"metadata": {"name": HOSTILE}, "data": {"a": "x" * 5000}}, is_new=True),
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_of_the_admin_takes_a_name_as_one_word(tmp_path: Path, case: str) -> None:
    said, *files = run(LINES[case], tmp_path)

    assert files == []
    assert HOSTILE in said
