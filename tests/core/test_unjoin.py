"""Unjoining: what a Cluster that is being deleted waits for, and what becomes of what runs there [unjoin-and-drain]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.admission.admit import admit_create
from controlplane.apimachinery.errors import Conflict, Invalid
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.apimachinery.names import CREDENTIALS_ANNOTATION
from controlplane.clusters import unjoin
from controlplane.controllers.unjoin import Unjoin, UnjoinSnapshot
from controlplane.controllers.works import Works, WorksSnapshot
from controlplane.engine import run
from controlplane.engine.decision import Decision, Delete, Put
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.cluster import Cluster, SecretReference
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.settings import Compat, Settings
from tests.builders import objects
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import duplicated
from tests.core.fleet_story import FAILOVER

WEB = binding("web", duplicated("member1"), on={"member1": 2})
EMPTIED = replace(FAILOVER, compat=Compat(terminating_taint=True))
CLOSED = replace(Settings(), compat=Compat(terminating_taint=True))


def leaving(wish: str = "", ready: str = "True") -> Cluster:
    notes = {"failover.lifeboat.io/unjoin": wish} if wish else {}
    return cluster("member1", ready=ready).with_meta(
        deletion_timestamp=START, finalizers=("karmada.io/cluster-controller", "example.io/other"), annotations=notes
    )


def work(name: str, owner: Any = None, **meta: Any) -> Work:
    return objects.work(name, of=owner, **{"finalizers": ("karmada.io/execution-controller",), **meta})


OF_WEB = work("web", WEB.ref)
BY_HAND = work("by-hand")
OF_TEAM = work("team", Ref("Namespace", "", "team"))
GOING = work("going", deletion_timestamp=START)
HOME = Template("v1", "Namespace", ObjectMeta(name="karmada-es-member1", uid="home"))
LEASE = Template("coordination.k8s.io/v1", "Lease", ObjectMeta(name="member1", namespace="karmada-cluster", uid="l"))


def decided(departure: UnjoinSnapshot, settings: Settings = FAILOVER) -> Decision:
    return Unjoin().decide(departure, settings, now=START)


def reported(decision: Decision) -> str:
    return " ".join(one.message for one in decision.events)


def deleted(decision: Decision) -> set[str]:
    """Names of what goes, by either way."""
    gone = {change.old.metadata.name for change in decision.changes if isinstance(change, Delete)}
    marked = {
        one.new.metadata.name
        for one in decision.changes
        if isinstance(one, Put) and one.new.metadata.deletion_timestamp
    }
    return gone | (marked - {"member1"})


def test_a_cluster_is_held_by_our_finalizer_from_the_beginning() -> None:
    doc = {"metadata": {"name": "member1"}, "spec": {"syncMode": "Push"}}

    made = admit_create(kinds.KINDS[kinds.CLUSTER], doc, namespace="", settings=Settings(), now=START, uid="uid")

    assert made.object.metadata.finalizers == ("karmada.io/cluster-controller",)


def test_a_cluster_that_joined_before_there_was_one_gets_it() -> None:
    (change,) = decided(UnjoinSnapshot(cluster("member1"))).changes

    assert isinstance(change, Put)
    assert change.new.metadata.finalizers == ("karmada.io/cluster-controller",)
    assert isinstance(change.new, Cluster)
    assert decided(UnjoinSnapshot(change.new)) == Decision()


@pytest.mark.parametrize(
    ("departure", "settings", "waits_for"),
    [
        (UnjoinSnapshot(leaving(), placed=(WEB.ref,)), FAILOVER, "move them with a Drain"),
        (UnjoinSnapshot(leaving(), placed=(WEB.ref,), works=(OF_WEB,)), EMPTIED, "the eviction queue moves them"),
        (UnjoinSnapshot(leaving(), placed=(WEB.ref,)), CLOSED, "move them with a Drain"),
        (UnjoinSnapshot(leaving(ready="Unknown"), placed=(WEB.ref,)), FAILOVER, "web-deployment"),
        (
            UnjoinSnapshot(leaving(), works=(OF_WEB,), owned=frozenset({OF_WEB.ref})),
            FAILOVER,
            "may be the last healthy ones",
        ),
        (
            UnjoinSnapshot(leaving(), works=(OF_TEAM, OF_WEB), owned=frozenset({OF_WEB.ref})),
            FAILOVER,
            "(karmada-es-member1/web)",
        ),
    ],
    ids=["placed", "queue", "queue, gate closed", "unreachable", "replacements not healthy yet", "in its namespace"],
)
def test_what_it_waits_for_is_said_and_nothing_is_removed(
    departure: UnjoinSnapshot, settings: Settings, waits_for: str
) -> None:
    decision = decided(departure, settings)

    assert decision.changes == ()
    assert waits_for in reported(decision)
    assert decision.wake_at == START + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("departure", "goes"),
    [
        (UnjoinSnapshot(leaving(), works=(BY_HAND, GOING), namespace=HOME), {"by-hand"}),
        (UnjoinSnapshot(leaving(), works=(OF_WEB,)), {"web"}),
        (UnjoinSnapshot(leaving(), works=(OF_TEAM, OF_WEB)), {"team", "web"}),
        (UnjoinSnapshot(leaving(), works=(OF_WEB, BY_HAND), owned=frozenset({OF_WEB.ref})), {"by-hand"}),
        (UnjoinSnapshot(leaving(ready="False"), works=(OF_WEB,), owned=frozenset({OF_WEB.ref})), {"web"}),
        (UnjoinSnapshot(leaving("delete"), placed=(WEB.ref,), works=(OF_WEB,), owned=frozenset({OF_WEB.ref})), {"web"}),
        (UnjoinSnapshot(leaving("keep"), placed=(WEB.ref,), works=(OF_WEB,), owned=frozenset({OF_WEB.ref})), {"web"}),
        (UnjoinSnapshot(leaving(), works=(GOING,), namespace=HOME), set()),
        (UnjoinSnapshot(leaving(), namespace=HOME, lease=LEASE), {"karmada-es-member1"}),
    ],
    ids=[
        "the rest",
        "without owner",
        "namespaces with the last",
        "not the bindings'",
        "unreachable",
        "delete",
        "keep",
        "wait",
        "namespace",
    ],
)
def test_works_go_first_and_then_their_namespace(departure: UnjoinSnapshot, goes: set[str]) -> None:
    decision = decided(departure)

    assert deleted(decision) == goes
    assert decision.wake_at == START + timedelta(seconds=1)
    assert not any(isinstance(one, Put) and one.new.ref.kind == kinds.CLUSTER for one in decision.changes)


def test_keep_leaves_the_objects_on_the_member() -> None:
    (change,) = decided(UnjoinSnapshot(leaving("keep"), works=(OF_WEB,))).changes

    assert isinstance(change, Put)
    assert isinstance(change.new, Work)
    assert change.new.spec.preserve_resources_on_deletion is True
    assert change.new.metadata.deletion_timestamp == START


def test_the_last_thing_to_go_is_our_finalizer_and_no_other() -> None:
    decision = decided(UnjoinSnapshot(leaving(), lease=LEASE))

    (freed, lease) = decision.changes
    assert isinstance(freed, Put)
    assert freed.new.metadata.finalizers == ("example.io/other",)
    assert isinstance(lease, Delete)
    assert decided(UnjoinSnapshot(freed.new)) == Decision()  # type: ignore[arg-type]


def secret(of: str = "member1") -> Template:
    notes = {CREDENTIALS_ANNOTATION: of} if of else {}
    return Template("v1", "Secret", ObjectMeta(name="member1", namespace="karmada-cluster", uid="s", annotations=notes))


SHARING = cluster("other").with_spec(secret_ref=SecretReference("karmada-cluster", "member1"))
IMPERSONATING = cluster("other").with_spec(impersonator_secret_ref=SecretReference("karmada-cluster", "member1"))


@pytest.mark.parametrize(
    ("held", "names", "other", "goes"),
    [
        (secret(), "member1", cluster("other"), True),
        (secret(""), "member1", cluster("other"), False),
        (secret("other"), "member1", cluster("other"), False),
        (secret(), "of-an-operator", cluster("other"), False),
        (secret(), "", cluster("other"), False),
        (secret(), "member1", SHARING, False),
        (secret(), "member1", IMPERSONATING, False),
    ],
    ids=[
        "made by join",
        "a user's own",
        "made for another",
        "the cluster names another Secret",
        "the cluster names no Secret",
        "another cluster uses it",
        "another impersonates with it",
    ],
)
def test_the_credentials_join_made_go_with_their_cluster(
    held: Template, names: str, other: Cluster, goes: bool
) -> None:
    controller = Unjoin()
    named = leaving().with_spec(secret_ref=SecretReference("karmada-cluster", names) if names else None)
    store = MemoryStore(controllers=[controller])
    store.create(named, other, held)

    run.run_until_idle([controller], store, FAILOVER, world=run.World())

    assert (held.ref not in store.get([held.ref])) == goes
    assert "karmada.io/cluster-controller" not in store.get([named.ref])[named.ref].metadata.finalizers


def test_the_namespace_for_works_is_announced_when_a_cluster_joins_and_when_it_is_gone() -> None:
    new = cluster("member1").with_status(conditions=()).with_meta(finalizers=("karmada.io/cluster-controller",))

    assert [event.reason for event in decided(UnjoinSnapshot(new)).events] == ["CreateExecutionSpaceSucceed"]
    assert decided(UnjoinSnapshot(cluster("known").with_meta(finalizers=new.metadata.finalizers))).events == ()
    assert [event.reason for event in decided(UnjoinSnapshot(leaving())).events] == ["RemoveExecutionSpaceSucceed"]


def test_the_secret_of_the_impersonator_goes_as_well() -> None:
    controller = Unjoin()
    own, other = (SecretReference("karmada-cluster", name) for name in ("member1", "member1-impersonator"))
    named = leaving().with_spec(secret_ref=own, impersonator_secret_ref=other)
    second = secret().with_meta(name="member1-impersonator", uid="i")
    store = MemoryStore(controllers=[controller])
    store.create(named, secret(), second)

    run.run_until_idle([controller], store, FAILOVER, world=run.World())

    assert store.get([secret().ref, second.ref]) == {}


def test_the_rights_of_the_impersonator_are_removed_also_if_copies_stay() -> None:
    snapshot = UnjoinSnapshot(leaving("keep"), works=(work("rights", leaving().ref), OF_WEB))

    changes = decided(snapshot).changes

    assert [change.old.metadata.name for change in changes if isinstance(change, Delete)] == ["rights"]
    assert [change.new.metadata.name for change in changes if isinstance(change, Put)] == ["web"]  # it is released


def test_credentials_stay_as_long_as_something_has_to_be_removed_with_them() -> None:
    decision = decided(UnjoinSnapshot(leaving(), works=(BY_HAND,), credentials=(secret(),)))

    assert deleted(decision) == {"by-hand"}


# The guard

FREE, FULL = cluster("free"), cluster("member1")


@pytest.mark.parametrize(
    ("objects", "settings", "refused"),
    [
        ([FREE], FAILOVER, ""),
        ([FULL], FAILOVER, "default/web-deployment"),
        ([FULL], FAILOVER, "Drain"),
        ([FREE, FULL], FAILOVER, '"member1"'),
        ([FULL], CLOSED, "the feature gate Failover is off"),
        ([FULL], EMPTIED, ""),
        ([leaving()], FAILOVER, ""),
        ([FULL.with_meta(annotations={"failover.lifeboat.io/unjoin": "keep"})], FAILOVER, ""),
        ([FULL.with_meta(annotations={"failover.lifeboat.io/unjoin": "delete"})], FAILOVER, ""),
        ([WEB], FAILOVER, ""),
    ],
)
def test_a_cluster_with_bindings_is_not_deleted(objects: list[Any], settings: Settings, refused: str) -> None:
    store = MemoryStore(controllers=())
    store.create(FREE, FULL, WEB)

    if not refused:
        unjoin.check(store, objects, settings)
        return
    with pytest.raises(Conflict) as caught:
        unjoin.check(store, objects, settings)
    assert refused in caught.value.message


def test_another_wish_than_keep_or_delete_is_refused() -> None:
    doc = {
        "metadata": {"name": "m", "annotations": {"failover.lifeboat.io/unjoin": "kepe"}},
        "spec": {"syncMode": "Push"},
    }

    with pytest.raises(Invalid) as caught:
        admit_create(kinds.KINDS[kinds.CLUSTER], doc, namespace="", settings=Settings(), now=START, uid="uid")

    (cause,) = caught.value.details.causes
    assert cause.field == "metadata.annotations[failover.lifeboat.io/unjoin]"
    assert '"keep", "delete"' in cause.message


def test_what_it_finds_is_what_holds_it() -> None:
    store = MemoryStore(controllers=())
    copy = OF_WEB.with_meta(name=works.work_name("Deployment", "web", "default"), uid="uid-copy")
    store.create(leaving(), cluster("free"), WEB, copy, OF_WEB, BY_HAND, HOME, LEASE)

    (found, other) = Unjoin().load(store, [Ref(kinds.CLUSTER, "", "member1"), Ref(kinds.CLUSTER, "", "free")])

    assert found is not None
    assert [ref.name for ref in found.placed] == ["web-deployment"]
    assert {one.metadata.name for one in found.works} == {copy.metadata.name, "web", "by-hand"}
    assert found.owned == {copy.ref}, "the other Work says in an annotation alone that it is a copy of the binding"
    assert found.namespace is not None
    assert found.lease is not None
    assert other is not None
    assert (other.placed, other.works) == ((), ())


def test_a_refuge_that_is_away_for_a_moment_keeps_a_deleted_cluster_for_seconds_only() -> None:
    web, of = binding("web", duplicated("member2"), on={"member2": 2}), WEB.spec.resource
    template = Template(of.api_version, of.kind, ObjectMeta(name=of.name, namespace=of.namespace, uid="web"))
    clusters = {"member1": leaving(), "member2": cluster("member2", ready="False")}

    decision = Works().decide(WorksSnapshot(web, template, {"member1": OF_WEB}, clusters), EMPTIED, now=START)

    assert deleted(decision) == set()
    assert decision.wake_at == START + timedelta(seconds=5)
