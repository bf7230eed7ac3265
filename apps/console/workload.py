"""GET /bindings/<namespace>/<name> and /workloads/<group>/<kind>/<namespace>/<name>: one workload from its template to
its copies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from shlex import quote
from typing import Any

from rest_framework.request import Request

from apps.api import authorization
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, path_attributes, resource_attributes
from apps.api.placement import explained_placement
from apps.console.object_links import CORE, NOWHERE, api_url, binding_ref, binding_url, record_url
from apps.console.page import Page
from apps.console.queue import BADGES, allowed_orders, order_value
from apps.console.workload_acts import REBALANCER
from apps.console.workload_answers import explained, prospects
from apps.console.workload_chain import Chain, healthy_count, links, unclaimed_links
from apps.failover.begun import FailoverChoice, begun_page
from apps.failover.fleet_arrays import fleet_of
from apps.objects.configuration import configuration
from apps.objects.history import written_at
from apps.objects.store import store
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
    binding_name,
)
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.insight.copies import ROLES, Copy, copies
from controlplane.insight.failure_outlook import Situation
from controlplane.kind import KINDS
from controlplane.kinds import (
    CLUSTER_PROPAGATION_POLICY,
    PROPAGATION_POLICY,
    WORK,
)
from controlplane.kinds.binding import Binding
from controlplane.kinds.eviction import CLUSTER_EVICTION, EVICTION
from controlplane.kinds.rows import Eviction, Observation
from controlplane.kinds.work import Work
from controlplane.propagation.bindings import template_ref

RECORDS = 10  # failovers that the page lists
CLUSTERS = 25  # clusters that the table of filters lists first: those with a copy, then those that could take it
HEALTH_BADGES = {"Healthy": "ok", "Unhealthy": "bad", "Unknown": "warn"}


class WorkloadView(Page):
    """Base of both pages. A workload without a binding has a page as well, which says that no policy claims it."""

    title = "Workload"
    template_name = "console/workload.html"

    def refs(self) -> tuple[Ref, Ref | None]:
        """Return the references of the binding and of the template; None: the binding names it."""
        raise NotImplementedError

    def subjects(self) -> dict[str, tuple[str, ...]]:
        binding, template = self.refs()
        return {"workload": (*(str(ref) for ref in (binding, template) if ref is not None), "Eviction")}

    def kubectl(self) -> str:
        binding, _ = self.refs()
        place = f"-n {binding.namespace} " if binding.namespace else ""
        return f"kubectl get {KINDS[binding.kind].resource.singular} {place}{quote(binding.name)} -o yaml"

    def context(self, request: Request) -> dict[str, Any]:
        reading, now = store(), store().now()
        configuration().settings()  # reads the kinds that users have defined meanwhile
        ref, template = self.refs()
        binding: Binding | None = reading.get([ref]).get(ref)
        if template is None:
            if binding is None:
                raise _missing(ref)
            template = template_ref(binding)
        policy = None if binding is None else policy_of(binding)
        # No value of a Secret is shown, so the page needs no key.
        found = reading.get([one for one in (template, policy) if one is not None], unopened=True)
        if binding is None and template not in found:
            raise _missing(template)
        shown = {"now": now, "title": f"{template.kind.rpartition('/')[2]} {template.name}", "template": template}
        if binding is None:
            return shown | {"binding": None, "links": list(unclaimed_links(found[template]))}
        works = self._works(request, ref)
        stored = (found.get(template), None if policy is None else found.get(policy))
        situation = situation_of(reading, [binding])
        kind = KINDS[EVICTION if ref.namespace else CLUSTER_EVICTION].resource
        answers = _answers(request, binding, situation, now)
        return shown | {
            "binding": binding,
            "verbs": allowed_orders(self, request, kind, ref.namespace),
            "acts": self._acts(request, ref, has_failed_over=bool(answers["records"])),
            **_parts(binding, policy, stored, works, situation),
            **answers,
        }

    def _acts(self, request: Request, ref: Ref, *, has_failed_over: bool) -> list[tuple[str, str]]:
        """Return the URLs and names of the acts on the workload that are possible, and that the user may do."""
        url, resource = binding_url(ref), KINDS[ref.kind].resource
        acts = []
        may_revert = self.may(request, "create", resource, namespace=ref.namespace, name=ref.name, sub="revert")
        if has_failed_over and may_revert:
            acts.append((f"{url}/revert", "Take back the last failover"))
        if self.may(request, "create", REBALANCER):
            acts.append((f"{url}/rebalance", "Choose clusters again"))
        return acts

    def _works(self, request: Request, ref: Ref) -> Sequence[Work]:
        """Return the Works of a binding. Readers who may not read Works see what the binding reports of them."""
        resource = KINDS[WORK].resource
        if not self.may(request, "list", resource):
            return ()
        found: Sequence[Work] = store().by_index(WORK, "binding", [str(ref)]).get(str(ref), ())
        return found


class BindingPage(WorkloadView):
    """A workload by its binding."""

    def refs(self) -> tuple[Ref, Ref | None]:
        return binding_ref(self.kwargs["namespace"], self.kwargs["name"]), None

    def attributes(self, request: Request) -> Attributes:
        ref, _ = self.refs()
        return resource_attributes(request, KINDS[ref.kind].resource, Scope(ref.namespace, ref.name))


class WorkloadPage(WorkloadView):
    """A workload by its template."""

    def refs(self) -> tuple[Ref, Ref | None]:
        group, kind, name = self.kwargs["group"], self.kwargs["kind"], self.kwargs["name"]
        namespace = "" if self.kwargs["namespace"] == NOWHERE else self.kwargs["namespace"]
        template = Ref(kind if group == CORE else f"{group}/{kind}", namespace, name)
        return binding_ref(self.kwargs["namespace"], binding_name(kind, name)), template

    def attributes(self, request: Request) -> Attributes:
        _, template = self.refs()
        known = KINDS.get(template.kind) if template is not None else None
        if template is None or known is None:
            return path_attributes(request)
        return resource_attributes(request, known.resource, Scope(template.namespace, template.name))

    def context(self, request: Request) -> dict[str, Any]:
        ref, template = self.refs()
        resource = KINDS[ref.kind].resource
        authorization.check(
            Attributes(request.user, "get", resource.group, resource.plural, "", ref.namespace, ref.name)
        )
        configuration().settings()  # reads the kinds that users have defined meanwhile
        if template is not None and template.kind not in KINDS:
            raise NotFound(f'no kind "{template.kind}" is served; see kubectl api-resources')
        return super().context(request)


def _parts(
    binding: Binding,
    policy: Ref | None,
    stored: tuple[Object | None, Object | None],
    works: Sequence[Work],
    situation: Situation,
) -> dict[str, Any]:
    """Return the variables about the chain and the copies. Two queries."""
    versions = {int(one.metadata.resource_version or 0) for one in (*stored, binding, *works) if one is not None}
    clusters = {target.name for target in binding.spec.clusters} | {work.cluster for work in works}
    clusters |= {item.cluster_name for item in binding.status.aggregated_status}
    rows = store().rows(Observation, "key", sorted(clusters)).values()
    away = {one.metadata.name: since for one in situation.clusters if (since := one.out_of_reach_since) is not None}
    own = copies(binding, works, observations={row.key: row for some in rows for row in some}, out_of_reach=away)
    chain = Chain(binding, stored[0], policy, stored[1], works, own, written_at(versions))
    return {
        "links": list(links(chain)),
        "copies": [
            (copy, ROLES[copy.role], HEALTH_BADGES.get(copy.health, "off"), _work_url(copy, works)) for copy in own
        ],
        "healthy": healthy_count(own),
        "expected": len(binding.spec.clusters),
    }


def _answers(request: Request, binding: Binding, situation: Situation, now: datetime) -> dict[str, Any]:
    """Return the variables about the queue, the placement, a failure of each cluster, and the records."""
    reading, settings, key = store(), configuration().settings(), str(binding.ref)
    queued = reading.rows(Eviction, "binding", [key]).get(key, ())
    begun = begun_page(FailoverChoice(binding=binding.ref), limit=RECORDS)
    term, explanation = _term(request), explained_placement(reading, binding.ref)
    fleet = fleet_of(situation, settings)
    shown = explained(explanation, binding, situation, settings, fleet=fleet, term=term)
    limit = len(shown["table"]) if request.query_params.get("clusters") == "all" else CLUSTERS
    return {
        "queued": [_queued(row) for row in queued if row.due_at is not None],
        **shown,
        "table": shown["table"][:limit],
        "all_clusters": len(shown["table"]) if len(shown["table"]) > limit else 0,
        "term_number": term,
        **prospects(binding, situation, settings, queued, fleet=fleet, now=now),
        "records": [(one, record_url(one.name, one.namespace), one.name in begun.running) for one in begun.failovers],
    }


def policy_of(binding: Binding) -> Ref | None:
    """Return the policy that claims a binding's template; None: the binding belongs to no policy any more."""
    annotations = binding.metadata.annotations
    if name := annotations.get(PROPAGATION_POLICY_NAME_ANNOTATION):
        return Ref(PROPAGATION_POLICY, annotations.get(PROPAGATION_POLICY_NAMESPACE_ANNOTATION, ""), name)
    name = annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION, "")
    return Ref(CLUSTER_PROPAGATION_POLICY, "", name) if name else None


def _missing(ref: Ref) -> NotFound:
    resource = KINDS[ref.kind].resource
    return NotFound.of(resource.plural, ref.name, group=resource.group)


def _work_url(copy: Copy, works: Sequence[Work]) -> str:
    return next((api_url(work.ref) for work in works if work.cluster == copy.cluster), "")


def _queued(row: Eviction) -> dict[str, Any]:
    return {"row": row, "badge": BADGES.get(row.state, "off"), "value": order_value(row)}


def _term(request: Request) -> int | None:
    text = request.query_params.get("term", "")
    return int(text) if text.isdecimal() and len(text) < 4 else None
