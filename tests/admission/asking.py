"""Asks a server, a kube-apiserver or Lifeboat, about the cases; `Ask` sends one request to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.admission import hook_cases
from tests.admission.authorizer_cases import GRANTS, READER
from tests.admission.hook_cases import CONFIGURED, HOOKS, MUTATING, REINVOKED, VALIDATING
from tests.admission.policy_cases import BINDINGS, GROUP, NAMESPACE, Node, Write
from tests.admission.policy_documents import POLICIES, SPECS, documents, written
from tests.admission.typed_cases import TYPED
from tests.processes import until

POLICY, BINDING = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
URL = f"/apis/{GROUP}/v1"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


class Reply(NamedTuple):
    """An answer: its status, its document and the texts of its Warning headers."""

    status: int
    body: Node
    warnings: list[str]


def content_type(method: str, path: str) -> str:
    """Return the content type of the body of a request of the cases."""
    if method != "PATCH":
        return "application/json"
    return "application/apply-patch+yaml" if "fieldManager=" in path else "application/merge-patch+json"


Ask = Callable[[str, str, Any], Reply]
"""Sends method, path and document."""


def shown(reply: Reply) -> Node:
    """Return what is compared of an answer."""
    made: Node = {"status": reply.status}
    if reply.status >= 400:
        causes = (reply.body.get("details") or {}).get("causes") or []
        made |= {"reason": reply.body.get("reason"), "message": reply.body.get("message"), "causes": causes}
    return made | ({"warnings": reply.warnings} if reply.warnings else {})


def write(ask: Ask, url: str, name: str, document: Node, stated: Write) -> Reply:
    """Send one write of a case."""
    query = "?dryRun=All" if stated.dry_run else ""
    match stated.do:
        case "create":
            return ask("POST", f"{url}{query}", document)
        case "update":
            return ask("PUT", f"{url}/{name}{query}", document)
    return ask("DELETE", f"{url}/{name}{query}", None)


def make_namespace(ask: Ask) -> None:
    """Store the namespace of the cases, with a ServiceAccount that may read in it. Return when it may."""
    metadata = {"name": NAMESPACE, "labels": {"team": "a"}}
    assert ask("POST", "/api/v1/namespaces", {"metadata": metadata}).status in (201, 409)
    for plural, document in GRANTS:
        url = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/{plural}"
        assert ask("POST", url, document).status in (201, 409)
    until(lambda: _may_read(ask), within=10)  # servers know of a grant a moment later


def _may_read(ask: Ask) -> bool:
    asked = {"namespace": NAMESPACE, "verb": "get", "resource": "configmaps"}
    review = {"spec": {"user": f"system:serviceaccount:{NAMESPACE}:{READER}", "resourceAttributes": asked}}
    answer = ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer.body.get("status", {}).get("allowed"))


def make_policy(ask: Ask, case: int) -> None:
    """Store the policy of a case, its parameters and its bindings."""
    params, bindings, policy = documents(case)
    for url, made in ((MAPS, params), (f"{URL}/{POLICY}", [policy]), (f"{URL}/{BINDING}", bindings)):
        for document in made:
            reply = ask("POST", url, document)
            assert reply.status == 201, (case, reply.body)


def policy_writes(ask: Ask, case: int) -> list[Node]:
    """Return the answers to the writes of a case, whose policy is in force. Its object is removed."""
    return [shown(write(ask, MAPS, f"case{case}", written(case, stated), stated)) for stated in POLICIES[case].writes]


def remove_policy(ask: Ask, case: int) -> None:
    params, bindings, policy = documents(case)
    for url, made in ((f"{URL}/{BINDING}", bindings), (f"{URL}/{POLICY}", [policy]), (MAPS, params)):
        for document in made:
            ask("DELETE", f"{url}/{document['metadata']['name']}", None)
    ask("DELETE", f"{MAPS}/case{case}", None)


def spec_answers(ask: Ask) -> list[Node]:
    """Return the answers to specs of policies, which are not stored."""
    return [_tried(ask, POLICY, "ValidatingAdmissionPolicy", spec) for spec in SPECS]


def binding_answers(ask: Ask) -> list[Node]:
    """Return the answers to specs of bindings, which are not stored."""
    return [_tried(ask, BINDING, "ValidatingAdmissionPolicyBinding", spec) for spec in BINDINGS]


def typed_answers(ask: Ask, *, seconds: float = 10) -> list[Any]:
    """Return the warnings about types in the status of each policy; None: it is refused. []: no controller is there."""
    for case, stated in enumerate(TYPED):
        metadata = {"name": f"typed-{case}"}
        ask("POST", f"{URL}/{POLICY}", {"kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": stated})
    time.sleep(seconds)
    found = [ask("GET", f"{URL}/{POLICY}/typed-{case}", None) for case in range(len(TYPED))]
    for case in range(len(TYPED)):
        ask("DELETE", f"{URL}/{POLICY}/typed-{case}", None)
    states = [None if one.status != 200 else one.body.get("status") or {} for one in found]
    if not any(states):
        return []
    return [None if one is None else one.get("typeChecking", {}).get("expressionWarnings", []) for one in states]


def make_hooks(ask: Ask, case: int, server: Any) -> None:
    """Store the configurations of a case."""
    for document in hook_cases.configurations(case, server.url, server.bundle, server.other):
        reply = ask("POST", _url_of(document["kind"]), document)
        assert reply.status == 201, (case, reply.body)


def remove_hooks(ask: Ask, case: int) -> None:
    for document in hook_cases.configurations(case, "", "", ""):
        ask("DELETE", f"{_url_of(document['kind'])}/{document['metadata']['name']}", None)
    ask("DELETE", f"{MAPS}/hook{case}", None)


def hook_writes(ask: Ask, case: int) -> list[Node]:
    """Return the answers to the writes of a case, with what was stored and who owns it."""
    found = []
    for stated in HOOKS[case].writes:
        reply = write(ask, MAPS, f"hook{case}", hook_cases.written(case, stated), stated)
        made = shown(reply)
        if reply.status < 300 and stated.do != "delete":
            owners = [
                sorted({*one["fieldsV1"].get("f:data", {})} - {"."}) for one in reply.body["metadata"]["managedFields"]
            ]
            made |= {"data": reply.body.get("data"), "labels": reply.body["metadata"]["labels"], "owned": owners}
        found.append(made)
    return found


def configured_answers(ask: Ask) -> list[Node]:
    """Return the answers to configurations, which are not stored."""
    stated = [*((VALIDATING, hooks) for hooks in CONFIGURED), *((MUTATING, hooks) for hooks in REINVOKED)]
    return [_tried(ask, f"{kind.lower()}s", kind, hooks, field="webhooks") for kind, hooks in stated]


def _url_of(kind: str) -> str:
    return f"{URL}/{kind.lower()}s"


def _tried(ask: Ask, plural: str, kind: str, stated: Any, *, field: str = "spec") -> Node:
    document = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "tried"}, field: stated}
    return shown(ask("POST", f"{URL}/{plural}?dryRun=All", document))
