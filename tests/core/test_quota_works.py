"""The ResourceQuotas of static assignments on their clusters, each on its own [federated-quotas]."""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.apimachinery.names import work_name
from controlplane.controllers.federated_quotas import USED, FederatedQuotas
from controlplane.kinds import CLUSTER, FAILOVER_CONFIGURATION
from controlplane.kinds.federated_quota import StaticClusterAssignment
from tests.builders.objects import START, work
from tests.core.propagation_story import MEMBERS
from tests.core.test_federated_quotas import QuotaStory, quota

PARTS = {"member1": {"cpu": "4"}, "member2": {"cpu": "6"}}


def limits(story: QuotaStory) -> dict[str, str]:
    """Return the limit of the ResourceQuota on each cluster."""
    return {name: one.manifest["spec"]["hard"]["cpu"] for name, one in story.works().items()}


def test_a_part_whose_work_has_a_taken_name_keeps_no_other_part_from_its_cluster() -> None:
    """For example, a user propagates a ResourceQuota of the same name to this cluster."""
    taken = work_name("ResourceQuota", "team", "default")
    other = replace(work("other", "member1"), metadata=ObjectMeta(name=taken, namespace="karmada-es-member1", uid="o"))

    story = QuotaStory(*MEMBERS, other, quota(cpu="10", parts=PARTS))

    assert story.works()["member1"].metadata.uid == "o"
    assert story.works()["member2"].manifest["spec"] == {"hard": {"cpu": "6"}}
    assert story.quota().status.overall == {"cpu": "10"}
    (message,) = story.events("NameTaken")
    assert f"{other.ref} exists and was not made for this object" in message

    story.delete(other)
    story.later(seconds=11)
    assert limits(story) == {"member1": "4", "member2": "6"}


def test_a_part_that_is_given_back_while_it_is_removed_keeps_no_other_part_waiting() -> None:
    story = QuotaStory(*MEMBERS, quota(cpu="10", parts={"member1": {"cpu": "4"}}))
    story.change(static_assignments=())
    assert story.works()["member1"].metadata.deletion_timestamp is not None

    story.change(static_assignments=tuple(StaticClusterAssignment(name, hard) for name, hard in PARTS.items()))
    assert limits(story)["member2"] == "6"
    story.remove_from_member("member1")

    assert limits(story) == {"member1": "4", "member2": "6"}


def test_a_cluster_that_leaves_the_fleet_loses_its_part() -> None:
    story = QuotaStory(*MEMBERS, quota(cpu="10", parts=PARTS))

    leaving = story.store.objects[MEMBERS[0].ref]
    story.edit(leaving.with_meta(deletion_timestamp=START, finalizers=("karmada.io/cluster-controller",)))

    assert story.works()["member1"].metadata.deletion_timestamp is not None
    assert story.works()["member2"].metadata.deletion_timestamp is None


def test_a_change_of_the_settings_concerns_all_quotas_and_other_changes_only_some() -> None:
    """The settings may enforce quotas from now on, which changes what `status.overallUsed` counts."""
    elsewhere = quota("there", cpu="1").with_meta(namespace="shop")
    story = QuotaStory(*MEMBERS, quota(cpu="10", parts={"member2": {"cpu": "1"}}), elsewhere)

    def concerned(origin: Ref) -> list[Ref]:
        return FederatedQuotas().expand_all(story.store, [origin], after="", limit=10)[0]

    assert set(concerned(Ref(FAILOVER_CONFIGURATION, "", "default"))) == {quota().ref, elsewhere.ref}
    assert concerned(Ref(USED, "", "shop")) == [elsewhere.ref]
    assert concerned(Ref(CLUSTER, "", "member2")) == [quota().ref]
    assert concerned(Ref(CLUSTER, "", "member1")) == []
