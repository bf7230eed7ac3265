"""The rights of impersonators in members follow the rights on clusters/proxy [proxy-rights]."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.impersonators import Impersonators
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.cluster import Cluster, SecretReference
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders import templates
from tests.builders.objects import START, cluster

RBAC = "rbac.authorization.k8s.io/v1"
MEMBER = cluster("member1").with_spec(impersonator_secret_ref=SecretReference("team", "member1-impersonator"))


def template(kind: str, name: str, **content: Any) -> Template:
    return templates.template(kind, name, version=RBAC, namespace="", **content)


def role(*clusters: str) -> Template:
    rule = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"]}
    return template("ClusterRole", "proxies", rules=[{**rule, "resourceNames": [*clusters]}])


def binding(*users: str) -> Template:
    subjects = [{"kind": "User", "name": name} for name in users]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "proxies"}
    return template("ClusterRoleBinding", "proxies", roleRef=reference, subjects=subjects)


class Story:
    """A store in which the controller has worked off what is due."""

    def __init__(self, *objects: Any) -> None:
        self.controller = Impersonators()
        self.store = MemoryStore(controllers=[self.controller], clock=lambda: START)
        self.store.create(*objects)
        self.settle()

    def settle(self) -> None:
        run.run_until_idle([self.controller], self.store, Settings(), world=run.World())

    def change(self, new: Any, old: Any) -> None:
        self.store.put(new, self.store.get([old.ref])[old.ref])
        self.settle()

    def manifests(self, name: str = "member1") -> dict[str, dict[str, Any]]:
        works = self.store.list("work.karmada.io/Work")
        return {
            work.manifest["kind"]: work.manifest for work in works if work.metadata.namespace == f"karmada-es-{name}"
        }

    def users(self, name: str = "member1") -> list[str]:
        rules = self.manifests(name)["ClusterRole"]["rules"]
        return [user for rule in rules if rule["resources"] == ["users"] for user in rule["resourceNames"]]


def test_a_member_with_an_impersonator_gets_its_role_and_its_binding() -> None:
    story = Story(MEMBER, role("member1"), binding("eva"))

    found = story.manifests()

    assert story.users() == ["eva"]
    assert found["ClusterRole"]["metadata"]["name"] == "karmada-impersonator"
    assert found["ClusterRoleBinding"]["roleRef"]["name"] == "karmada-impersonator"
    account = {"kind": "ServiceAccount", "namespace": "team", "name": "karmada-impersonator"}
    assert found["ClusterRoleBinding"]["subjects"] == [account]


def test_a_member_without_an_impersonator_gets_nothing() -> None:
    assert Story(cluster("member1"), role("member1"), binding("eva")).manifests() == {}


def test_rights_follow_roles_and_bindings_here() -> None:
    second: Cluster = MEMBER.with_meta(name="member2", uid="uid-member2")
    story = Story(MEMBER, second, role("member1"), binding("eva"))
    assert story.manifests("member2")["ClusterRole"]["rules"] == []

    story.change(role("member1", "member2"), role("member1"))
    story.change(binding("eva", "mia"), binding("eva"))

    assert (story.users(), story.users("member2")) == (["eva", "mia"], ["eva", "mia"])


def test_rights_are_removed_when_the_cluster_names_no_impersonator_any_more() -> None:
    story = Story(MEMBER, role("member1"), binding("eva"))

    story.change(MEMBER.with_spec(impersonator_secret_ref=None), MEMBER)

    works = story.store.list("work.karmada.io/Work")
    assert [work.metadata.deletion_timestamp is not None for work in works] == [True, True]
