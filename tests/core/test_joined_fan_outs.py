"""Changes of many objects at once cost the controllers as many reads and writes as one change, if they concern nothing
or the same objects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.dependencies import Dependencies
from controlplane.controllers.federated_quotas import FederatedQuotas
from controlplane.controllers.impersonators import ROLES, Impersonators
from controlplane.controllers.policies import Policies
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.token_secrets import TokenSecrets
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch, run_until_idle
from controlplane.engine.state import Claim
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.policy import Placement
from controlplane.kinds.template.token_secret import TYPE as TOKEN
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, policy
from tests.builders.templates import config_map, deployment, secret, template, with_environment_from
from tests.core.propagation_story import Story
from tests.core.test_federated_quotas import ON, quota
from tests.core.test_overrides import label

MANY = 60
RBAC = "rbac.authorization.k8s.io/v1"


class Counted(MemoryStore):
    """A store that counts the queries and the transactions of fan-outs."""

    queries = 0
    transactions = 0

    def refs_by_index(self, kind: str, index: str, value: str | Collection[str], **page: Any) -> Sequence[Ref]:
        self.queries += 1
        return super().refs_by_index(kind, index, value, **page)

    def advance(self, claims: Sequence[Claim], refs: Collection[Ref], *, cursor: str | None) -> None:
        self.transactions += 1
        super().advance(claims, refs, cursor=cursor)


def cost_of_creating(controller: Any, *objects: Any) -> tuple[int, int]:
    """Return how many queries and transactions it takes until nothing is due."""
    store = Counted(controllers=[controller], clock=lambda: START)
    store.create(*objects)
    while run_batch(controller, store, Settings(), world=World()).claimed:
        pass
    return store.queries, store.transactions


def test_a_batch_of_new_config_maps_costs_as_much_as_one_where_no_workload_needs_them() -> None:
    """Each had its own queries, and transactions that every writer waits for."""
    many = [config_map(f"settings-{number}") for number in range(MANY)]

    one = cost_of_creating(Dependencies(), many[0])

    assert one[0] > 0
    assert one[1] > 0
    assert cost_of_creating(Dependencies(), *many) == one


@pytest.mark.parametrize("cursor", ["", "0,1,default/web", "1,0,"], ids=["new", "earlier version", "by label, earlier"])
def test_workloads_that_need_one_of_the_new_objects_are_due(cursor: str) -> None:
    names = [f"web-{number}" for number in range(5)]
    webs = [with_environment_from(deployment(name), f"for-{name}") for name in names]
    story = Story(policy("all", propagate_deps=True), *webs)
    origins = [config_map(f"for-{name}").ref for name in (*names[:3], "nobody")]

    found, after = Dependencies().expand_all(story.store, origins, after=cursor, limit=2)
    rest, end = Dependencies().expand_all(story.store, origins, after=after or "", limit=2)

    assert [ref.kind for ref in found] == [RESOURCE_BINDING] * 2
    assert [ref.name for ref in (*found, *rest)] == [f"{name}-deployment" for name in names[:3]]
    assert end is None


def test_a_batch_of_placements_costs_quotas_as_much_in_sixty_namespaces_as_in_one() -> None:
    """Each namespace had its own queries and transactions, also where there is no quota at all."""
    web = binding("web", Placement(), on={"a": 2}, replicas=2, cpu="500m")
    placed = [web.with_meta(namespace=f"team-{number}") for number in range(MANY)]

    one = cost_of_creating(FederatedQuotas(), placed[0])

    assert one == (1, 1)
    assert cost_of_creating(FederatedQuotas(), *placed) == one


def test_the_quotas_of_all_changed_namespaces_are_counted_together() -> None:
    quotas = [quota(cpu="10").with_meta(namespace=f"team-{number}") for number in range(4)]
    placed = binding("web", Placement(), on={"a": 2}, replicas=2, cpu="500m")
    store = MemoryStore(controllers=[FederatedQuotas()], clock=lambda: START)
    store.create(*quotas)
    run_until_idle([FederatedQuotas()], store, ON, world=World())

    store.create(*(placed.with_meta(namespace=f"team-{number}") for number in (1, 3)))
    run_until_idle([FederatedQuotas()], store, ON, world=World())

    used = [store.objects[one.ref].status.overall_used for one in quotas]  # type: ignore[attr-defined]
    assert used == [{}, {"cpu": "1"}, {}, {"cpu": "1"}]


def test_a_batch_of_new_service_accounts_costs_as_much_as_one_where_no_secret_is_for_them() -> None:
    many = [template("ServiceAccount", f"robot-{number}") for number in range(MANY)]

    one = cost_of_creating(TokenSecrets(), many[0])

    assert one == (1, 1)
    assert cost_of_creating(TokenSecrets(), *many) == one


def test_the_secrets_of_all_service_accounts_of_a_batch_are_due() -> None:
    of = "kubernetes.io/service-account.name"
    held = [secret(f"token-{one}", type_=TOKEN, annotations={of: f"robot-{one}"}) for one in range(4)]
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(*held, secret("other"))
    robots = [template("ServiceAccount", f"robot-{one}").ref for one in (0, 3)]

    assert TokenSecrets().expand_all(store, robots, after="", limit=9) == ([held[0].ref, held[3].ref], None)
    assert TokenSecrets().expand_all(store, [FLEET], after="", limit=9) == ([one.ref for one in held], None)


def test_a_batch_of_new_cluster_roles_makes_the_clusters_due_once() -> None:
    """Each of them read all clusters, and marked all of them."""
    members = [cluster(f"member{number}") for number in range(4)]
    roles = [template("ClusterRole", f"role-{n}", version=RBAC, namespace="", rules=[]) for n in range(MANY)]
    bound = [template("ClusterRoleBinding", f"b-{n}", version=RBAC, namespace="", subjects=[]) for n in range(MANY)]

    one = cost_of_creating(Impersonators(), *members, roles[0], bound[0])

    assert one[1] == 1
    assert cost_of_creating(Impersonators(), *members, *roles[:40], *bound[:40]) == one


@pytest.mark.parametrize("limit", [1, 3, 9])
def test_changed_roles_concern_all_clusters_page_by_page(limit: int) -> None:
    members = [cluster(f"member{number}") for number in range(4)]
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(*members)
    origins = [template(kind, "a", version=RBAC, namespace="").ref for kind in ("ClusterRole", "ClusterRoleBinding")]
    found: list[Ref] = []
    after: str | None = ""

    assert {Impersonators().fan_out_of(origin) for origin in origins} == {ROLES}
    while after is not None:
        refs, after = Impersonators().expand_all(store, origins, after=after, limit=limit)
        found += refs

    assert found == [one.ref for one in members]


def test_a_batch_of_new_override_policies_costs_as_much_as_one_where_no_policy_waits_for_them() -> None:
    many = [label(f"o-{number}", "x", namespace=f"team-{number}") for number in range(MANY)]

    one = cost_of_creating(Policies(), many[0])

    assert one[1] == 1
    assert cost_of_creating(Policies(), *many) == one


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_the_templates_of_all_policies_that_wait_for_one_of_the_new_override_policies_are_due(limit: int) -> None:
    """Policies of the same names in other namespaces wait for others."""
    named = {"shop": "first", "team": "second", "other": "elsewhere"}
    waiting = [policy("own", namespace=place, dependent_overrides=(name,)) for place, name in named.items()]
    fleet = policy("fleet", namespace="", dependent_overrides=("first",))
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(*waiting, fleet, *(deployment(f"web-{n}", namespace=place) for place in named for n in (1, 2)))
    created = [label(name, "x", namespace=place).ref for name, place in (("first", "shop"), ("second", "team"))]
    found: list[Ref] = []
    after: str | None = ""

    while after is not None:
        refs, after = Policies().expand_all(store, created, after=after, limit=limit)
        found += refs

    assert [(ref.namespace, ref.name) for ref in found] == [(p, f"web-{n}") for p in ("shop", "team") for n in (1, 2)]


def test_an_override_policy_whose_fan_out_goes_on_alone_reaches_all_that_waits_for_it() -> None:
    """The others of its batch may have ended, or begun again."""
    first, second = (policy(name, dependent_overrides=(f"for-{name}",)) for name in ("a", "b"))
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(first, second, *(deployment(f"web-{number}") for number in range(3)))
    both = [label(f"for-{name}", "x").ref for name in ("a", "b")]

    _, after = Policies().expand_all(store, both, after="", limit=9)
    rest, end = Policies().expand_all(store, both[1:], after=after or "", limit=9)

    assert [ref.name for ref in rest] == ["web-0", "web-1", "web-2"]
    assert end is None
    assert len(Policies().expand_all(store, both[1:], after="1>0#", limit=9)[0]) == 3  # of an earlier version
