"""Every way in stores the same object, shows the same warnings and writes the same fields of the change log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest
import yaml
from cryptography.fernet import Fernet
from django.contrib.messages import WARNING, get_messages
from django.test import Client

from apps.clusters.joining import JoinError, Member, join, join_pull
from apps.objects import edits
from apps.objects.configuration import base
from apps.objects.models import AuditEvent, ChangeLog
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from apps.objects.writer import Author, Writer, document_of
from controlplane.apimachinery.errors import Conflict
from controlplane.apimachinery.meta import Object, Ref
from controlplane.clusters.taints import OWNERS_ANNOTATION
from controlplane.kinds import CLUSTER, CLUSTER_TAINT_POLICY, EVICTION_HOLD
from controlplane.kinds.taint_policy import TaintToAdd
from tests.apps.pages import change, confirmed, found, list_of, page_of, save, stored
from tests.builders.bare import cluster
from tests.builders.objects import taint_policy

HOLDS = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
POLICIES = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
HOLD = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "EvictionHold",
    "metadata": {"name": "stop"},
    "spec": {"clusters": ["nowhere"], "reason": "new disks"},
}
REF = Ref(EVICTION_HOLD, "", "stop")
EDITED = {**HOLD, "spec": {**HOLD["spec"], "reason": "old disks"}}  # type: ignore[dict-item]  # spec is a dict
STRANGE = 'spec.clusters: there is no cluster "nowhere" (yet); see kubectl get clusters'
LATER = "effects: no waiting eviction changes; later evictions from cluster nowhere are held"
IDLE = "effects: moves nothing; the feature gate Failover is off, so no taint evicts copies"
WITHDRAWN = "this deletion withdraws 1 taint: example.io/failed:NoExecute from cluster member1"


class Way(NamedTuple):
    """A way in: what is asked, which returns the warnings; the reason of its changes; the verb of its audit events."""

    name: str
    ask: Callable[[Client, Any], list[str]]
    reason: str
    verb: str


def _api(method: str, path: str, *, type: str = "application/json", accept: str = "application/json") -> Any:
    """Return a way through the API."""

    def ask(root: Client, document: Any) -> list[str]:
        body = yaml.safe_dump(document) if "yaml" in type else json.dumps(document)
        response = root.generic(method, path, body if document else "", content_type=type, headers={"Accept": accept})
        assert response.status_code < 300, response.content
        return re.findall(r'299 - "((?:[^"\\]|\\.)*)"', response.headers.get("Warning", "").replace(r"\"", "'"))

    return ask


def _page(method: str, path: str) -> Any:
    """Return a way through the browsable API, which first refuses the write without a reason."""

    def ask(root: Client, document: Any) -> list[str]:
        body = yaml.safe_dump(document) if document else ""
        refused = root.generic(method, path, body, content_type="application/yaml", headers={"Accept": "text/html"})
        assert refused.status_code == 422
        assert "Write the reason. The change log keeps it with your name." in refused.content.decode()
        assert "nothing has happened yet; effects: " in refused.content.decode()
        assert "the same with kubectl: kubectl " in refused.content.decode()
        confirmed_url = f"{path}?reason=a%20test"
        found: list[str] = _api(method, confirmed_url, type="application/yaml", accept="text/html")(root, document)
        return found

    return ask


def _admin_add(root: Client, document: Any) -> list[str]:
    add = list_of(EVICTION_HOLD) + "add/"
    return _shown(confirmed(root, add, {"document": yaml.safe_dump(document), "_continue": "1"}))


def _admin_change(root: Client, document: Any) -> list[str]:
    return _shown(save(root, page_of(found(REF)), yaml.safe_dump(document)))


def _admin_delete(root: Client, document: Any) -> list[str]:
    return _shown(confirmed(root, page_of(_policy_now(), "delete")))


def _admin_delete_selected(root: Client, document: Any) -> list[str]:
    row = page_of(_policy_now()).split("/")[-3]
    return _shown(
        confirmed(root, list_of(CLUSTER_TAINT_POLICY), {"action": "delete_selected", "_selected_action": [row]})
    )


def _shell_create(root: Client, document: Any) -> list[str]:
    return _quoted(edits.create(document, edits.By("root")).warnings)


def _shell_change(root: Client, document: Any) -> list[str]:
    live = found(REF)
    basis = int(live.metadata.resource_version)
    return _quoted(edits.change(REF, document, edits.By("root"), basis=basis).warnings)


def _shell_remove(root: Client, document: Any) -> list[str]:
    return _quoted(edits.remove([_policy_now().ref], edits.By("root")).warnings)


def _quoted(warnings: list[str]) -> list[str]:
    return [warning.replace('"', "'") for warning in warnings]


def _shown(response: Any) -> list[str]:
    """Return the warnings that the next page of the admin shows. It also says where the write can be watched."""
    texts = [str(one.message) for one in get_messages(response.wsgi_request)]
    assert any('Watch it: <a href="/">Situation</a>, <a href="/queue">Queue</a>' in text for text in texts), texts
    return [str(one.message).replace('"', "'") for one in get_messages(response.wsgi_request) if one.level == WARNING]


def _policy_now() -> Object:
    policy: Object = found(Ref(CLUSTER_TAINT_POLICY, "", "detect"))
    return policy


APPLY = "application/apply-patch+yaml"
NEW = (
    Way("POST", _api("POST", HOLDS), "API", "create"),
    Way("server-side apply", _api("PATCH", f"{HOLDS}/stop?fieldManager=me", type=APPLY), "API", "patch"),
    Way("browsable API", _page("POST", HOLDS), "API: a test", "create"),
    Way("admin", _admin_add, "Admin: a test", "create"),
    Way("shell", _shell_create, "Admin", "create"),
)
CHANGES = (
    Way("PUT", _api("PUT", f"{HOLDS}/stop"), "API", "update"),
    Way("merge patch", _api("PATCH", f"{HOLDS}/stop", type="application/merge-patch+json"), "API", "patch"),
    Way("server-side apply", _api("PATCH", f"{HOLDS}/stop?fieldManager=me&force=true", type=APPLY), "API", "patch"),
    Way("browsable API", _page("PUT", f"{HOLDS}/stop"), "API: a test", "update"),
    Way("admin", _admin_change, "Admin: a test", "update"),
    Way("shell", _shell_change, "Admin", "update"),
)
DELETIONS = (
    Way("DELETE", _api("DELETE", f"{POLICIES}/detect"), "API", "delete"),
    Way(
        "DELETE of a collection",
        _api("DELETE", f"{POLICIES}?fieldSelector=metadata.name=detect"),
        "API",
        "deletecollection",
    ),
    Way("browsable API", _page("DELETE", f"{POLICIES}/detect"), "API: a test", "delete"),
    Way("admin", _admin_delete, "Admin: a test", "delete"),
    Way("admin, several", _admin_delete_selected, "Admin: a test", "delete"),
    Way("shell", _shell_remove, "Admin", "delete"),
)


def _plain(obj: Object) -> dict[str, Any]:
    """Return what is stored, without what differs between any two objects: uid, times and versions."""
    document = document_of(obj)
    kept = {"name", "namespace", "generation", "labels", "annotations", "finalizers"}
    owned = [sorted(entry["fieldsV1"]) for entry in document["metadata"].get("managedFields", ())]
    document["metadata"] = {key: value for key, value in document["metadata"].items() if key in kept}
    return {**document, "owned": owned[-1]}


def _last_change(ref: Ref) -> ChangeLog:
    return ChangeLog.objects.filter(kind=ref.kind, name=ref.name).order_by("-version")[0]


def _last_audited(ref: Ref) -> tuple[str, str, str, int]:
    # The event of a refusal is stored up to a second later, and so perhaps after that of the next write.
    stored = AuditEvent.objects.filter(name=ref.name, code__lt=400)
    event = stored.order_by("-at", "-pk")[0]
    return event.username, event.verb, event.resource, event.code


@pytest.mark.parametrize("way", NEW, ids=lambda way: way.name)
def test_a_new_object_is_the_same_whichever_way_it_comes_in(root: Client, way: Way) -> None:
    warnings = way.ask(root, HOLD)

    assert warnings == [STRANGE.replace('"', "'"), LATER]
    assert _plain(found(REF)) == {
        **HOLD,
        "metadata": {"name": "stop", "generation": 1},
        "owned": ["f:spec"],
    }
    logged = _last_change(REF)
    assert (logged.actor, logged.reason, logged.type) == ("root", way.reason, "ADDED")
    assert _last_audited(REF) == ("root", way.verb, "evictionholds", 201)


@pytest.mark.parametrize("way", CHANGES, ids=lambda way: way.name)
def test_an_edit_is_the_same_whichever_way_it_comes_in(root: Client, way: Way) -> None:
    _api("POST", HOLDS)(root, HOLD)

    warnings = way.ask(root, EDITED)

    assert warnings == [STRANGE.replace('"', "'"), LATER]
    assert _plain(found(REF)) == {
        **EDITED,
        "metadata": {"name": "stop", "generation": 2},
        "owned": ["f:spec"],
    }
    logged = _last_change(REF)
    assert (logged.actor, logged.reason, logged.type) == ("root", way.reason, "MODIFIED")
    assert _last_audited(REF) == ("root", way.verb, "evictionholds", 200)


@pytest.mark.parametrize("way", DELETIONS, ids=lambda way: way.name)
def test_deleting_a_taint_policy_warns_on_every_way_in(root: Client, way: Way) -> None:
    owners = {"example.io/failed:NoExecute": {"by": {"policy/detect": ""}}}
    annotations = {OWNERS_ANNOTATION: orjson.dumps(owners).decode()}
    policy = taint_policy("detect", taints=(TaintToAdd("example.io/failed", "NoExecute"),))
    stored(cluster("member1", "NoExecute", annotations=annotations), policy)

    warnings = way.ask(root, None)

    assert warnings == [WITHDRAWN, IDLE]
    assert found(policy.ref) is None
    logged = _last_change(policy.ref)
    assert (logged.actor, logged.reason, logged.type) == ("root", way.reason, "DELETED")
    assert _last_audited(policy.ref) == ("root", way.verb, "clustertaintpolicies", 200)


def _overtaken(times: int) -> Callable[[Any], Object]:
    """Return an action that another write overtakes so many times."""
    left = [times]

    def action(live: Any) -> Object:
        if left[0]:
            left[0] -= 1
            change(live, live.with_meta(annotations={"example.io/note": f"theirs {left[0]}"}))
        return live.with_meta(annotations={**live.metadata.annotations, "example.io/note": "ours"})  # type: ignore[no-any-return]

    return action


def test_an_action_is_tried_again_when_another_write_was_faster(root: Client) -> None:
    ref = stored(cluster("member1"))[0].ref

    edits.act(ref, _overtaken(3), edits.By("root"), rule="Fence")

    assert found(ref).metadata.annotations["example.io/note"] == "ours"
    assert (_last_change(ref).actor, _last_change(ref).reason) == ("root", "Fence")


def test_an_action_that_is_always_overtaken_ends_with_a_conflict(root: Client) -> None:
    ref = stored(cluster("member1"))[0].ref
    writer = Writer(store(), base(), Author("root", "Fence"))

    with pytest.raises(Conflict):
        writer.act(ref, _overtaken(1000))


def test_joining_again_renews_credentials_whose_key_is_lost(root: Client, settings: Any) -> None:
    make_namespaces(store())
    member, secret = Member("member1", "https://member1.example", "secret"), Ref("Secret", "karmada-cluster", "member1")
    join(store(), [member], base())
    before = found(secret).content["data"]
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()

    assert join(store(), [member], base()) == ["member1"]

    assert found(secret).content["data"] == before


def test_joining_is_logged_and_owned_like_any_other_edit(root: Client) -> None:
    make_namespaces(store())
    member = Member("member1", "https://member1.example", "secret")

    assert join(store(), [member], base()) == ["member1"]
    assert join(store(), [member], base()) == []
    assert join_pull(store(), "member2", base())

    for name in ("member1", "member2"):
        ref = Ref(CLUSTER, "", name)
        assert (_last_change(ref).actor, _last_change(ref).reason) == ("join", "Join")
        assert document_of(found(ref))["metadata"]["managedFields"][0]["manager"] == "lifeboat"


def test_joining_in_another_mode_is_refused(root: Client) -> None:
    make_namespaces(store())
    pushed, pulled = (Member(name, f"https://{name}.example", "secret") for name in ("member1", "member2"))
    join(store(), [pushed], base())
    join_pull(store(), "member2", base())

    with pytest.raises(JoinError, match=r"member1 is joined with spec\.syncMode Push"):
        join_pull(store(), "member1", base())
    with pytest.raises(JoinError, match=r"member2 is joined with spec\.syncMode Pull"):
        join(store(), [pulled], base())

    assert (
        found(Ref(CLUSTER, "", "member2")).spec.api_endpoint,
        store().get([Ref("Secret", "karmada-cluster", "member2")]),
    ) == ("", {})
