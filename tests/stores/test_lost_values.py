"""A Work that carries a Secret whose key is lost is written again with what replaces the Secret, and can be removed."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection

from apps.api.client_authority import make_authority
from apps.objects.encryption import SealError
from apps.objects.listing import page
from apps.objects.namespaces import make_namespaces
from apps.objects.store import DjangoStore
from apps.objects.what_if import effects_of
from controlplane.apimachinery.meta import Condition, OwnerReference, Ref
from controlplane.apimachinery.names import (
    CLUSTER_FINALIZER,
    CREDENTIALS_ANNOTATION,
    NAMESPACE_CONTENT_FINALIZER,
    WORK_FINALIZER,
)
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.authentication import bootstrap_tokens
from controlplane.clusters.questions import Discard
from controlplane.controllers.bootstrap_tokens import CLUSTER_INFO, BootstrapTokens
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.execution import Execution
from controlplane.controllers.garbage import EVERYTHING, Garbage
from controlplane.controllers.namespace_content import NamespaceContent
from controlplane.controllers.policies import Policies
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.unjoin import Unjoin
from controlplane.controllers.work_status import WorkStatus
from controlplane.controllers.works import Works
from controlplane.engine.decision import Put, Save, deleting
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Unreadable
from controlplane.insight.changes import PolicyEdited
from controlplane.kinds import INTERPRETER_CUSTOMIZATION, RESOURCE_BINDING, WORK
from controlplane.kinds.binding import ObjectReference, ResourceBindingSpec, TargetCluster
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.interpreter_webhook import ALL
from controlplane.kinds.policy import ResourceSelector
from controlplane.propagation import matching
from controlplane.settings import Settings
from tests.builders import objects, templates
from tests.builders.bare import START, cluster
from tests.builders.steering import hold
from tests.stores.grounds import create, stored, write

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "b2xk", "bmV3"
SECRET = Ref("Secret", "shop", "login")
SETTINGS = Settings()


def sealed_text() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT doc FROM resources_work")
        ((text,),) = cursor.fetchall()
    return str(text)


def sync(store: DjangoStore) -> Any:
    """Run the controller of Works, and return the Work of the Secret."""
    report = run_batch(Works(), store, SETTINGS, world=World())
    assert not report.failures, report.failures
    works = store.list(WORK)
    return works[0] if works else None


@pytest.fixture
def store(settings: Any) -> DjangoStore:
    """A Secret that is placed on member1, and its Work there. Their key is lost."""
    store = DjangoStore(controllers=[Works()])
    secret = templates.template("Secret", "login", namespace="shop", data={"password": OLD})
    spec = ResourceBindingSpec(
        resource=ObjectReference("v1", "Secret", "login", "shop"), clusters=(TargetCluster("member1"),)
    )
    called = cluster("member1").with_spec(api_endpoint="http://member1")
    ready = called.with_status(conditions=(Condition("Ready", "True", ""),))
    create(store, secret, objects.bound(spec, name="login-secret", namespace="shop"), ready)
    assert sync(store).manifest["data"] == {"password": OLD}
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()
    return store


def asked(store: DjangoStore, controller: Any) -> Any:
    (work,) = store.list(WORK)
    (snapshot,) = controller.load(store, [work.ref])
    return controller.question(snapshot, SETTINGS, now=START)


def test_the_work_gets_what_replaces_the_secret(store: DjangoStore) -> None:
    old = store.get([SECRET], unopened=True)[SECRET]
    write(store, Put(old.with_content({**old.content, "data": {"password": NEW}}), old))

    assert sync(store).manifest["data"] == {"password": NEW}
    assert stored(store, SECRET).content["data"] == {"password": NEW}


def test_nothing_is_sent_to_a_member_in_place_of_a_lost_value(store: DjangoStore) -> None:
    for controller in (Execution(), WorkStatus()):
        with pytest.raises(Unreadable, match="key that is not known"):
            asked(store, controller)


def test_a_status_is_stored_and_the_encrypted_values_stay(store: DjangoStore, settings: Any) -> None:
    before = sealed_text().partition("lifeboat:sealed:1:")[2].partition('"')[0]
    (work,) = store.list(WORK)

    write(store, Put(work.with_status(conditions=(objects.applied(),)), work))

    assert f"lifeboat:sealed:1:{before}" in sealed_text()
    assert '"Applied"' in sealed_text()


def test_a_status_of_a_work_that_is_being_removed_keeps_its_encrypted_values(store: DjangoStore, settings: Any) -> None:
    before = sealed_text().partition("lifeboat:sealed:1:")[2].partition('"')[0]
    (work,) = store.list(WORK)
    write(store, deleting(work, now=START))

    (live,) = store.list(WORK)
    write(store, Put(live.with_status(conditions=(objects.applied("False", "CleanupFailed"),)), live))

    assert '"CleanupFailed"' in sealed_text()
    assert f"lifeboat:sealed:1:{before}" in sealed_text()


def test_the_work_of_a_secret_that_is_deleted_is_removed_from_its_member(store: DjangoStore) -> None:
    (work,) = store.list(WORK)
    assert WORK_FINALIZER in work.metadata.finalizers
    write(store, *(deleting(one, now=START) for one in (*store.list(RESOURCE_BINDING), work)))

    assert isinstance(asked(store, Execution()), Discard)
    (live,) = store.list(WORK)
    write(store, Put(live.with_meta(finalizers=()), live))
    assert store.list(WORK) == []


def test_a_work_that_is_being_removed_is_served_to_the_agent_that_removes_it(store: DjangoStore) -> None:
    (work,) = store.list(WORK)
    with pytest.raises(SealError):
        page(WORK)

    write(store, deleting(work, now=START))

    ((_, name, text),) = page(WORK).found
    assert (name, OLD.encode() in text, b"sealed" in text) == (work.metadata.name, False, False)


def test_what_an_owner_leaves_behind_can_be_read_for_its_deletion(store: DjangoStore, settings: Any) -> None:
    reference = OwnerReference("v1", "ConfigMap", "owner", "uid-owner")
    create(store, templates.secret("owned", {"a": "b"}, namespace="shop", owner_references=(reference,)))
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()

    ((owned,),) = store.owned(["ConfigMap:shop/owner"], limit=9).values()
    write(store, deleting(owned, now=START))

    assert stored(store, owned) is None


def test_a_namespace_that_is_deleted_takes_its_secrets_along(store: DjangoStore) -> None:
    shop = templates.namespace("shop").with_meta(finalizers=(NAMESPACE_CONTENT_FINALIZER,))
    create(store, shop)
    store = DjangoStore(controllers=[NamespaceContent()])
    write(store, deleting(stored(store, shop), now=START))

    report = run_batch(NamespaceContent(), store, SETTINGS, world=World())

    assert not report.failures, report.failures
    assert store.get([SECRET], unopened=True) == {}


def test_an_installation_is_prepared_although_the_key_of_its_authority_is_lost(
    store: DjangoStore, settings: Any
) -> None:
    make_namespaces(store)
    assert make_authority(store)
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()

    assert not make_authority(store)


def test_a_bootstrap_token_is_used_although_the_key_of_another_secret_in_kube_system_is_lost(
    store: DjangoStore, settings: Any
) -> None:
    """Otherwise no new agent can check the authority of the control plane, and expired tokens stay."""
    make_namespaces(store)
    create(store, *(token(name) for name in ("lost00", "lost11")), templates.secret("other", {"a": "b"}, **SYSTEM))
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()
    create(store, token("abcdef"), templates.config_map(CLUSTER_INFO.name, namespace=CLUSTER_INFO.namespace))
    store = DjangoStore(controllers=[BootstrapTokens()])
    lost = store.get([token("lost00").ref], unopened=True)[token("lost00").ref]
    data = {**token("lost00").content["data"], "expiration": lost.content["data"]["expiration"]}
    write(store, Put(lost.with_content({**lost.content, "data": data}), lost))  # when it ends is not known
    info = stored(store, CLUSTER_INFO)
    write(store, Put(info.with_content({**info.content, "data": {"kubeconfig": "clusters: []"}}), info))

    report = run_batch(BootstrapTokens(), store, SETTINGS, world=World())

    assert not report.failures, report.failures
    assert set(stored(store, CLUSTER_INFO).content["data"]) == {"kubeconfig", "jws-kubeconfig-abcdef"}
    kept = store.list("Secret", namespace="kube-system", unopened=True)
    assert {"bootstrap-token-lost00", "bootstrap-token-lost11"} < {one.metadata.name for one in kept}


SYSTEM: Any = {"namespace": "kube-system"}


def token(name: str) -> Any:
    """Return the Secret of a bootstrap token that signs."""
    values = {"token-id": name, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}
    values["expiration"] = "2100-01-01T00:00:00Z"
    return templates.secret(f"bootstrap-token-{name}", values, type_=bootstrap_tokens.TYPE, **SYSTEM)


def test_a_hold_with_labels_keeps_no_eviction_waiting_for_a_secret_whose_key_is_lost(store: DjangoStore) -> None:
    secret = store.get([SECRET], unopened=True)[SECRET]
    write(store, Put(secret.with_meta(labels={"tier": "db"}), secret))
    (placed,) = store.list(RESOURCE_BINDING)
    create(store, hold(selector=LabelSelector(match_labels={"tier": "db"})))
    write(store, Save(objects.eviction(placed)))

    (snapshot,) = Evictions().load(store, [FLEET])

    assert snapshot is not None
    assert [row.binding for row in snapshot.heads] == [str(placed.ref)]
    assert snapshot.holds.labels == {placed.ref: {"tier": "db"}}
    assert snapshot.holds.covering(snapshot.heads[0], placed, now=START) is not None


def test_bindings_of_deleted_workloads_are_found_beside_a_secret_whose_key_is_lost(store: DjangoStore) -> None:
    create(store, objects.binding("gone", None))  # its Deployment was deleted

    (snapshot,) = Garbage().load(store, [Ref(RESOURCE_BINDING, "", EVERYTHING)])

    assert snapshot is not None
    assert (len(snapshot.page), snapshot.alive) == (2, {SECRET})


def test_a_cluster_is_unjoined_although_the_key_of_its_credentials_is_lost(settings: Any) -> None:
    store = DjangoStore(controllers=[Unjoin()])
    credentials = templates.template("Secret", "member7", namespace="karmada-cluster", data={"token": OLD})
    credentials = credentials.with_meta(annotations={CREDENTIALS_ANNOTATION: "member7"})
    member = cluster("member7").with_spec(secret_ref=SecretReference("karmada-cluster", "member7"))
    leaving = member.with_meta(finalizers=(CLUSTER_FINALIZER,), deletion_timestamp=START)
    create(store, credentials, leaving)
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()
    store.mark("unjoin", [leaving.ref])

    report = run_batch(Unjoin(), store, SETTINGS, world=World())

    assert not report.failures, report.failures[0].error
    assert store.get([leaving.ref, credentials.ref], unopened=True) == {}


SELECTED = {
    "all of its kind": ResourceSelector("v1", "Secret"),
    "by name": ResourceSelector("v1", "Secret", "shop", "login"),
}


@pytest.mark.parametrize("which", SELECTED)
def test_a_policy_that_selects_such_a_secret_is_applied_to_all_other_objects(store: DjangoStore, which: str) -> None:
    """A fan-out over what a policy selects stopped at the Secret, before anything was placed."""
    web = templates.deployment("web", namespace="shop")
    create(store, web, objects.policy("all", SELECTED[which], objects.DEPLOYMENTS, namespace="shop"))
    policy = objects.policy("all", namespace="shop").ref

    assert Policies().expand(store, policy, after="", limit=100) == ([SECRET, web.ref], None)


def test_a_deleted_policy_lets_all_other_objects_go(store: DjangoStore) -> None:
    policy = objects.policy("all", objects.DEPLOYMENTS, namespace="shop")
    labels, annotations = matching.claim(policy)
    web = templates.deployment("web", namespace="shop").with_meta(labels=labels, annotations=annotations)
    secret = store.get([SECRET], unopened=True)[SECRET]
    write(store, Put(secret.with_meta(labels=labels, annotations=annotations), secret))
    create(store, web)

    assert Policies().expand(store, policy.ref, after="", limit=100) == ([SECRET, web.ref], None)


@pytest.mark.parametrize("kind", ["Secret", ALL])
def test_a_changed_rule_concerns_all_other_objects(store: DjangoStore, kind: str) -> None:
    origin = Ref(INTERPRETER_CUSTOMIZATION, "", kind)

    assert Policies().expand(store, origin, after="", limit=100)[0] == [SECRET]


POLICIES = {
    "PropagationPolicy": {"placement": {"clusterAffinity": {"clusterNames": ["member2"]}}},
    "OverridePolicy": {
        "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}]
    },
}


@pytest.mark.parametrize("kind", POLICIES)
def test_what_an_edit_of_such_a_policy_would_do_is_known(store: DjangoStore, kind: str) -> None:
    create(store, cluster("member2"))
    spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}], **POLICIES[kind]}
    head = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": {"name": "all", "namespace": "shop"}}

    effects = effects_of(store, [PolicyEdited({**head, "spec": spec})])

    without_place = "moves nothing, 1 without a place, 1 namespace"  # member2 is not Ready
    assert effects.sentence == {"PropagationPolicy": without_place, "OverridePolicy": "changes 1 copy"}[kind]
