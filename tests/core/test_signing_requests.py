"""Certificate requests: which are valid, who decides, what is signed, and when they are removed."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.errors import Forbidden, Invalid
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.authentication import signing_requests
from controlplane.authentication.signing_requests import NODE_SIGNER, Requester, Sign
from controlplane.authorization import agent_roles
from controlplane.authorization.policy import GROUP
from controlplane.authorization.registration_roles import BOOTSTRAP_GROUP, documents
from controlplane.controllers.signing_requests import AUTHORITY, SigningRequests
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.template import Template
from controlplane.kinds.template.signing_request import CLIENT_SIGNER
from controlplane.settings import Settings
from tests.builders.certificates import request_for
from tests.builders.objects import START, cluster
from tests.core.admitted import created, fields

CLIENT = ["client auth", "digital signature"]
AGENT = request_for("system:karmada:agent:member9", "system:karmada:agents")
OURS = request_for("system:lifeboat:agent:member9", "system:lifeboat:agents")


def document(request: str = AGENT, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "it"},
        "spec": {"request": request, "signerName": CLIENT_SIGNER, "usages": CLIENT, **spec},
    }


def csr(request: str = AGENT, *conditions: str, status: dict[str, Any] | None = None, **spec: Any) -> Template:
    made: Template = created(document(request, **spec), namespace="").object
    listed = [{"type": type_, "status": "True", "lastUpdateTime": START.isoformat()} for type_ in conditions]
    metadata = ObjectMeta(name="it", uid="uid-it", generation=1, creation_timestamp=START)
    return Template(made.api_version, made.kind, metadata, made.content, {"conditions": listed, **(status or {})})


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"request": "%%%"}, "spec.request"),
        ({"request": base64.b64encode(b"nothing").decode()}, "spec.request"),
        ({"request": request_for("eva", "system:masters")}, "spec.request"),
        ({"signerName": None}, "spec.signerName"),
        ({"signerName": "no-path"}, "spec.signerName"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["to sign"]}, "spec.usages[0]"),
        ({"usages": [{}]}, "spec.usages[0]"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]"),
        ({"expirationSeconds": 60}, "spec.expirationSeconds"),
    ],
)
def test_a_wrong_request_names_its_field(changed: dict[str, Any], field: str) -> None:
    made = document()
    made["spec"] = {key: value for key, value in {**made["spec"], **changed}.items() if value is not None}

    assert fields(made) == {field}


@pytest.mark.parametrize(
    ("request_", "usages", "signer", "agent"),
    [
        (AGENT, CLIENT, CLIENT_SIGNER, "system:karmada:agent:member9"),
        (AGENT, [*CLIENT, "key encipherment"], CLIENT_SIGNER, "system:karmada:agent:member9"),
        (OURS, CLIENT, CLIENT_SIGNER, "system:lifeboat:agent:member9"),
        (request_for("system:lifeboat:agent:a", "system:karmada:agents"), CLIENT, CLIENT_SIGNER, ""),
        (request_for("system:lifeboat:agent:", "system:lifeboat:agents"), CLIENT, CLIENT_SIGNER, ""),
        (AGENT, [*CLIENT, "server auth"], CLIENT_SIGNER, ""),
        (AGENT, CLIENT, "example.com/other", ""),
        (request_for("system:karmada:agent:member9"), CLIENT, CLIENT_SIGNER, ""),
        (request_for("system:karmada:agent:a", "system:karmada:agents", "more"), CLIENT, CLIENT_SIGNER, ""),
        (request_for("eva", "system:karmada:agents"), CLIENT, CLIENT_SIGNER, ""),
        (
            request_for("system:karmada:agent:a", "system:karmada:agents", other_names=["api.example"]),
            *(CLIENT, CLIENT_SIGNER, ""),
        ),
    ],
)
def test_requests_of_agents_are_recognised(request_: str, usages: list[str], signer: str, agent: str) -> None:
    assert signing_requests.agent_of(csr(request_, usages=usages, signerName=signer)) == agent


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (csr(), ""),
        (csr(usages=["client auth", "server auth"]), "the signer signs for the usages"),
        (csr(usages=["digital signature"]), "needs client auth"),
        (csr(request_for("")), "no common name"),
        (csr(signerName=NODE_SIGNER), "system:nodes"),
        (csr(request_for("system:node:a", "system:nodes"), signerName=NODE_SIGNER), ""),
        (csr(request_for("a", "system:masters"), signerName=NODE_SIGNER), "system:masters"),
    ],
)
def test_a_signer_refuses_what_it_does_not_sign(made: Template, why: str) -> None:
    assert why in signing_requests.refusal(made)
    assert bool(why) is bool(signing_requests.refusal(made))


def settled(store: MemoryStore) -> Template | None:
    run.run_until_idle([SigningRequests()], store, Settings(), world=run.World(answer=answer))
    return next(iter(store.list("certificates.k8s.io/CertificateSigningRequest")), None)


def answer(question: Any) -> Any:
    assert isinstance(question, Sign)
    return tuple(f"signed by {question.key}: {request.seconds}" for request in question.requests)


def stored(*objects: Any, at: Any = START) -> MemoryStore:
    store = MemoryStore(controllers=[SigningRequests()], clock=lambda: at)
    data = {"tls.crt": base64.b64encode(b"c").decode(), "tls.key": base64.b64encode(b"k").decode()}
    metadata = ObjectMeta(name=AUTHORITY.name, namespace=AUTHORITY.namespace, uid="uid-ca", creation_timestamp=START)
    authority = Template("v1", "Secret", metadata, {"type": "kubernetes.io/tls", "data": data})
    roles = [created(one, namespace=one["metadata"].get("namespace", "")).object for one in documents()]
    store.create(authority, *roles, *objects)
    return store


BOOTSTRAP = {"username": "system:bootstrap:abcdef", "groups": ["system:bootstrappers", BOOTSTRAP_GROUP]}
OWN = {"username": "system:karmada:agent:member9", "groups": ["system:karmada:agents"]}
OTHER = {"username": "eva", "groups": ["system:authenticated"]}


@pytest.mark.parametrize(
    ("requester", "joined", "approved"),
    [
        (BOOTSTRAP, [], True),
        (BOOTSTRAP, ["member1"], True),
        (BOOTSTRAP, ["member9"], False),
        (OWN, ["member9"], True),
        ({**OWN, "username": "system:karmada:agent:member8"}, ["member9"], False),
        (OTHER, [], False),
    ],
    ids=["new", "another joined", "joined", "renewal", "another agent", "a user"],
)
def test_only_new_agents_and_agents_themselves_are_approved_at_once(
    requester: dict[str, Any], joined: list[str], approved: bool
) -> None:
    found = settled(stored(csr(**requester), *(cluster(name) for name in joined)))

    assert found is not None
    types = [one["type"] for one in found.status.get("conditions", ())]
    assert types == (["Approved"] if approved else [])
    assert bool(found.status.get("certificate")) is approved


@pytest.mark.parametrize(
    ("joined", "approved"),
    [
        ([], False),
        ([cluster("member9").with_spec(sync_mode="Push")], False),
        ([cluster("member9", established=True).with_spec(sync_mode="Pull")], False),
        ([cluster("member9", ready="", established=False).with_spec(sync_mode="Pull")], True),
    ],
    ids=["not joined", "push", "had an agent", "waits for its agent"],
)
def test_a_bootstrap_token_gives_an_agent_only_to_a_pull_cluster_that_never_had_one(
    joined: list[Any], approved: bool
) -> None:
    found = settled(stored(csr(OURS, **BOOTSTRAP), *joined))

    assert found is not None
    assert bool(found.status.get("certificate")) is approved


def test_our_agents_renew_their_own_certificates_and_no_others() -> None:
    for name, approved in (("member9", True), ("member8", False)):
        own = {"username": f"system:lifeboat:agent:{name}", "groups": ["system:lifeboat:agents"]}
        found = settled(stored(csr(OURS, **own), cluster("member9", established=True).with_spec(sync_mode="Pull")))
        assert found is not None
        assert bool(found.status.get("certificate")) is approved


def test_what_was_approved_is_signed_for_a_year_at_most() -> None:
    for seconds, granted in ((3600, 3600), (10**9, 365 * 86_400)):
        found = settled(stored(csr(AGENT, "Approved", expirationSeconds=seconds, **OTHER)))
        assert found is not None
        assert base64.b64decode(found.status["certificate"]).decode() == f"signed by k: {granted}"


def test_what_cannot_be_signed_fails_with_the_reason() -> None:
    found = settled(stored(csr(AGENT, "Approved", usages=["client auth", "server auth"], **OTHER)))

    assert found is not None
    assert [one["type"] for one in found.status["conditions"]] == ["Approved", "Failed"]
    assert "client auth" in found.status["conditions"][1]["message"]
    assert "certificate" not in found.status


@pytest.mark.parametrize(
    ("made", "hours"),
    [(csr(**OTHER), 24), (csr(AGENT, "Denied", **OTHER), 1), (csr(AGENT, "Approved", "Failed", **OTHER), 1)],
    ids=["pending", "denied", "failed"],
)
def test_old_requests_are_removed(made: Template, hours: int) -> None:
    before, after = START + timedelta(hours=hours, seconds=-1), START + timedelta(hours=hours)

    assert settled(stored(made, at=before)) is not None
    assert settled(stored(made, at=after)) is None


def test_each_subresource_changes_its_own_part_of_the_status() -> None:
    open_, approved, denied = csr(), csr(AGENT, "Approved"), csr(AGENT, "Denied")
    signed = csr(AGENT, "Approved", status={"certificate": "abc"})

    signing_requests.check_status(approved, open_, approval=True)
    signing_requests.check_status(signed, approved, approval=False)
    assert signing_requests.needed_verb(approved, open_) == "approve"
    assert signing_requests.needed_verb(signed, approved) == "sign"
    for new, old, approval in (
        *((approved, open_, False), (signed, approved, True), (open_, approved, True), (open_, denied, True)),
        (csr(AGENT, "Approved", status={"certificate": "other"}), signed, False),
    ):
        with pytest.raises(Invalid):
            signing_requests.check_status(new, old, approval=approval)


def test_a_request_in_the_name_of_another_user_is_refused() -> None:
    signing_requests.check_requester(csr(**OTHER), Requester("eva", groups=("system:authenticated",)))
    with pytest.raises(Forbidden):
        signing_requests.check_requester(csr(**BOOTSTRAP), Requester("eva", groups=("system:authenticated",)))


def agents_role(name: str, rules: list[dict[str, Any]], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": rules}


def agents_binding(name: str, *subjects: str, role: str = "") -> dict[str, Any]:
    listed = [{"kind": "User", "apiGroup": GROUP, "name": subject} for subject in subjects]
    ref = {"kind": "ClusterRole", "name": role or name}
    return {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": ref, "subjects": listed}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (agents_role("system:karmada:a:agent", agent_roles.allowed("a", "")), True),
        (agents_role("system:karmada:a:agent-work", agent_roles.allowed("a", "karmada-es-a"), "karmada-es-a"), True),
        (agents_role("system:karmada:a:agent-work", agent_roles.allowed("a", "karmada-es-a"), "karmada-es-b"), False),
        (agents_role("system:karmada:b:agent", agent_roles.allowed("a", "")), False),
        (agents_role("a", agent_roles.allowed("a", "")), False),
        (
            agents_role("system:karmada:a:agent", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
            False,
        ),
        ({**agents_role("system:karmada:a:agent", []), "aggregationRule": {"clusterRoleSelectors": [{}]}}, False),
        (agents_binding("system:karmada:a:agent", "system:karmada:agent:a"), True),
        (agents_binding("system:karmada:a:agent", "system:karmada:agent:b"), False),
        (agents_binding("system:karmada:a:agent", "system:karmada:agent:a", "eva"), False),
        (agents_binding("system:karmada:a:agent", "system:karmada:agent:a", role="cluster-admin"), False),
    ],
)
def test_who_registers_agents_gives_them_their_own_rights_and_nothing_else(
    written: dict[str, Any], expected: bool
) -> None:
    assert agent_roles.is_agents(written) is expected


@pytest.mark.parametrize(
    ("agent", "created_after", "outlived"),
    [
        ("system:lifeboat:agent:member9", timedelta(hours=-1), False),
        ("system:lifeboat:agent:member9", timedelta(seconds=60), False),  # clocks differ
        ("system:lifeboat:agent:member9", timedelta(seconds=61), True),
        ("system:karmada:agent:member9", timedelta(days=1), False),  # creates its cluster itself, later
        ("eva", timedelta(days=1), False),
    ],
)
def test_a_certificate_of_an_earlier_cluster_is_known_by_its_age(
    agent: str, created_after: timedelta, outlived: bool
) -> None:
    valid_from = START - signing_requests.BACKDATED

    assert signing_requests.is_outlived(agent, valid_from, START + created_after) is outlived
    assert not signing_requests.is_outlived(agent, valid_from, None)
