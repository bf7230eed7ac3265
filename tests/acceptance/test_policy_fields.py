"""Fields of policies that hold copies back, take templates over or leave copies alone, on the running product."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.live import BINDINGS, Live
from tests.acceptance.manifests import divided, on, policy, workload

pytestmark = pytest.mark.slow

Document = dict[str, Any]
MAPS = "/api/v1/namespaces/{}/configmaps"
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/{}/propagationpolicies"
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{}/works"
LAST = "last"  # a ConfigMap that is propagated after everything else: once it is there, so is what came before


def maps(name: str, ns: str) -> str:
    return f"{MAPS.format(ns)}/{name}"


def config_map(name: str, value: str = "first") -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def propagates(name: str, *clusters: str, **spec: Any) -> Document:
    """Return a policy for the ConfigMap of its name."""
    made = policy(name, on(*clusters), ("v1", "ConfigMap", name))
    return {**made, "spec": {**made["spec"], **spec}}


def value(fleet: Live, member: str, ns: str, name: str) -> str | None:
    """Return what the copy on a member says; None: there is no copy."""
    held = fleet.member(member, "GET", maps(name, ns))
    return None if held is None else str(held["data"]["value"])


def wait_for_what_came_before(fleet: Live, ns: str, *, name: str = LAST) -> None:
    """Return when a ConfigMap that was made now is on member1 and member2."""
    fleet.apply(propagates(name, "member1", "member2"), config_map(name), namespace=ns)
    fleet.until(lambda: value(fleet, "member1", ns, name) and value(fleet, "member2", ns, name))


def test_copies_are_held_back_while_a_policy_is_suspended_or_lazy(fleet: Live, ns: str) -> None:
    elsewhere = {"dispatchingOnClusters": {"clusterNames": ["member2"]}}
    fleet.apply(
        propagates("whole", "member1", suspension={"dispatching": True}),
        propagates("one", "member1", "member2", suspension=elsewhere),
        propagates("unscheduled", "member1"),
        propagates("lazy", "member1", activationPreference="Lazy"),
        *(config_map(name) for name in ("whole", "one", "unscheduled", "lazy")),
        namespace=ns,
    )
    fleet.until(lambda: all(value(fleet, "member1", ns, name) for name in ("one", "unscheduled", "lazy")))
    held = f"{BINDINGS.format(ns)}/unscheduled-configmap"
    fleet.patch(held, {"spec": {"suspension": {"scheduling": True}}})
    for name in ("lazy", "unscheduled"):
        fleet.patch(f"{POLICIES.format(ns)}/{name}", {"spec": {"placement": on("member2")}})
    wait_for_what_came_before(fleet, ns)

    assert value(fleet, "member1", ns, "whole") is None
    assert value(fleet, "member2", ns, "one") is None
    assert fleet.placed(ns, "whole-configmap") == {"member1": 0}
    assert fleet.placed(ns, "unscheduled-configmap") == {"member1": 0}
    assert fleet.placed(ns, "lazy-configmap") == {"member1": 0}

    for url in (f"{POLICIES.format(ns)}/whole", f"{POLICIES.format(ns)}/one", held):
        fleet.patch(url, {"spec": {"suspension": None}})
    fleet.patch(maps("lazy", ns), {"data": {"value": "second"}})
    fleet.until(lambda: value(fleet, "member1", ns, "whole") and value(fleet, "member2", ns, "unscheduled"))
    fleet.until(lambda: value(fleet, "member2", ns, "one"))
    fleet.until(lambda: value(fleet, "member2", ns, "lazy") == "second" and value(fleet, "member1", ns, "lazy") is None)


def test_objects_of_a_member_are_kept_or_taken_over_as_the_policy_asks(fleet: Live, ns: str) -> None:
    wait_for_what_came_before(fleet, ns)  # the namespace exists on the members
    for name in ("kept", "taken"):
        assert fleet.member("member1", "POST", MAPS.format(ns), config_map(name, "of the member"))

    fleet.apply(
        propagates("kept", "member1", conflictResolution="Abort"),
        propagates("taken", "member1", conflictResolution="Overwrite"),
        propagates("stays", "member1", preserveResourcesOnDeletion=True),
        propagates("moves", "member1", preserveResourcesOnDeletion=True),
        propagates("goes", "member1"),
        *(config_map(name) for name in ("kept", "taken", "stays", "moves", "goes")),
        namespace=ns,
    )
    fleet.until(lambda: value(fleet, "member1", ns, "taken") == "first")
    fleet.until(lambda: all(value(fleet, "member1", ns, name) for name in ("stays", "moves", "goes")))

    def applied() -> Document:
        items = fleet.binding(ns, "kept-configmap").get("status", {}).get("aggregatedStatus") or ()
        return next((item for item in items if item.get("appliedMessage")), {})

    refused = fleet.until(applied)
    assert not refused.get("applied")
    assert value(fleet, "member1", ns, "kept") == "of the member"

    fleet.patch(f"{POLICIES.format(ns)}/moves", {"spec": {"placement": on("member2")}})
    fleet.until(lambda: value(fleet, "member2", ns, "moves") and value(fleet, "member1", ns, "moves") is None)

    for name in ("stays", "goes"):
        assert fleet.ask("DELETE", maps(name, ns)).status == 200
    fleet.until(lambda: value(fleet, "member1", ns, "goes") is None)
    fleet.until(lambda: not fleet.binding(ns, "stays-configmap"))
    left = fleet.member("member1", "GET", maps("stays", ns))
    assert left["data"] == {"value": "first"}
    assert not [key for key in left["metadata"].get("labels") or {} if "karmada.io" in key]

    assert fleet.ask("DELETE", f"/api/v1/namespaces/{ns}").status == 200
    fleet.until(lambda: not [work for work in fleet.items(WORKS.format("member1")) if ns in work["metadata"]["name"]])
    assert value(fleet, "member1", ns, "stays") == "first", "nor is it deleted with its namespace"


def test_the_first_of_two_policies_loses_a_template_only_to_one_that_preempts(fleet: Live, ns: str) -> None:
    fleet.configure(featureGates={"PropagationPolicyPreemption": True, "Failover": True})
    fleet.apply(propagates("web", "member1"), config_map("web"), namespace=ns)
    fleet.until(lambda: value(fleet, "member1", ns, "web"))

    polite = {**propagates("web", "member2", priority=5), "metadata": {"name": "polite"}}
    fleet.apply(polite, namespace=ns)
    wait_for_what_came_before(fleet, ns)
    assert fleet.placed(ns, "web-configmap") == {"member1": 0}

    fleet.apply(
        {**propagates("web", "member3", priority=9, preemption="Always"), "metadata": {"name": "bold"}}, namespace=ns
    )
    fleet.until(lambda: value(fleet, "member3", ns, "web") and value(fleet, "member1", ns, "web") is None)
    claim = fleet.get(maps("web", ns))["metadata"]["annotations"]["propagationpolicy.karmada.io/name"]
    assert claim == "bold"


def test_a_binding_has_the_value_of_the_priority_class_and_waits_until_the_class_exists(fleet: Live, ns: str) -> None:
    named = {"priorityClassSource": "KubePriorityClass", "priorityClassName": f"{ns}-high"}
    made = propagates("web", "member1", schedulePriority=named)
    fleet.apply(made, config_map("web"), namespace=ns)

    def failed() -> list[str]:
        events = fleet.items(f"/api/v1/namespaces/{ns}/events")
        return [event["message"] for event in events if event["reason"] == "ApplyPolicyFailed"]

    assert f'names PriorityClass "{ns}-high", which does not exist' in fleet.until(failed)[0]
    assert not fleet.binding(ns, "web-configmap")

    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert fleet.ask("POST", classes, {"metadata": {"name": f"{ns}-high"}, "value": 1000}).status == 201
    fleet.patch(maps("web", ns), {"data": {"value": "again"}})
    fleet.until(lambda: fleet.binding(ns, "web-configmap"))
    assert fleet.binding(ns, "web-configmap")["spec"]["schedulePriority"] == {"priority": 1000}
    assert fleet.ask("DELETE", f"{classes}/{ns}-high").status == 200


def test_replicas_that_do_not_fit_overflow_and_return(fleet: Live, ns: str) -> None:
    fleet.nodes(member1=1)
    # Its node is of the grade that begins with four CPUs, so four replicas of 900m fit there.
    first = {"affinityName": "first", "clusterNames": ["member1"]}
    more = {"affinityName": "more", "clusterNames": ["member2"]}
    placement = {"clusterAffinities": [{**first, "overflowAffinities": [more]}], **divided("Aggregated")}
    web = workload("web", 4)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "900m"}}
    fleet.apply(policy("web", placement), web, namespace=ns)
    fleet.until(lambda: fleet.placed(ns, "web-deployment") == {"member1": 4})

    url = f"/apis/apps/v1/namespaces/{ns}/deployments/web"
    fleet.patch(url, {"spec": {"replicas": 6}})
    fleet.until(lambda: fleet.placed(ns, "web-deployment") == {"member1": 4, "member2": 2})

    fleet.patch(url, {"spec": {"replicas": 4}})
    fleet.until(lambda: fleet.placed(ns, "web-deployment") == {"member1": 4})
    assert fleet.get(f"{BINDINGS.format(ns)}/web-deployment")["status"]["schedulerObservingAffinityName"] == "first"
