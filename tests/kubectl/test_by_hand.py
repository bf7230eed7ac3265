"""What docs/failover.md tells people to type, typed: Failback, Drain, revert, records, readiness."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.api.server import Client, Server
from tests.api.test_actions import leave
from tests.api.test_edits_while_queued import BEARS_IT, claimed
from tests.api.test_failback import join
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl

DOCS = Path(__file__).parents[2] / "docs" / "failover.md"


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def printed(kind: str) -> dict[str, object]:
    """The manifest of a kind as the page prints it."""
    blocks = re.findall(r"(?:^    .*\n)+", DOCS.read_text(), flags=re.MULTILINE)
    (found,) = [block for block in blocks if f"kind: {kind}\n" in block]
    manifest: dict[str, object] = yaml.safe_load(found)
    return manifest


def test_the_failback_of_the_page_is_applied_and_listed(k: Kubectl, api: Client, server: Server) -> None:
    origin = join(api, server, f"{k.namespace}-a")
    manifest = printed("Failback")
    manifest["metadata"] = {"name": k.namespace}
    assert isinstance(manifest["spec"], dict)
    manifest["spec"]["cluster"] = origin

    assert "created" in k("apply", "-f", k.file(manifest))

    shown = k("get", "failbacks", k.namespace)
    assert re.search(r"NAME\s+SUBJECT\s+PHASE\s+RETURNED\s+RETURNING\s+REMAINING", shown)
    assert f"cluster {origin}" in shown
    assert "at the same time" in k("explain", "failback.spec.atOnce")


def test_a_failback_that_cannot_work_is_refused_in_words(k: Kubectl, api: Client, server: Server) -> None:
    origin = join(api, server, f"{k.namespace}-a", since=None)
    manifest = {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": "Failback",
        "metadata": {"name": k.namespace},
        "spec": {"cluster": origin},
    }

    said = k("create", "-f", k.file(manifest), code=1)

    assert "Ready for less than 10 minutes" in said
    assert "create the failback once that is over" in said


def test_a_failover_is_taken_back_with_a_raw_request(k: Kubectl, api: Client) -> None:
    url = leave(api, k.namespace)

    k("create", "--raw", f"{url}/revert", "-f", "/dev/null")

    assert f"{k.namespace}-a" in k("get", "rb", "web-deployment", "-o", "jsonpath={.spec.clusters[*].name}")


def test_records_and_readiness_are_read(k: Kubectl, api: Client) -> None:
    url = leave(api, k.namespace)
    api.post(f"{url}/revert", {})

    assert "web-deployment." in k("get", "failoverrecords")
    assert '"prospects"' in k("get", "--raw", f"{url}/readiness")
    assert "obstacles:" in k("get", "fleetreadinesses", "-o", "yaml")


def test_an_edit_while_evictions_wait_is_answered_with_a_warning(k: Kubectl, api: Client, server: Server) -> None:
    claimed(api, server, k.namespace, "one")

    said = k("patch", "pp", "web", "--type", "merge", "-p", str(BEARS_IT).replace("'", '"'))

    assert "Warning: 1 eviction of its workloads queued" in said
