"""Acts on one workload: its latest failover is taken back, or the scheduler chooses its clusters again."""

from __future__ import annotations

from shlex import quote
from typing import Any, Final

import orjson
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.dry_run import of_write
from apps.console.guard import Act, ActPage
from apps.console.object_links import binding_ref, binding_url
from apps.failover.reverting import reverted
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import Writer, Written
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS
from controlplane.kinds.binding import Binding
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
from controlplane.propagation.bindings import template_ref

REBALANCER: Final = KINDS[WORKLOAD_REBALANCER].resource
KEPT_SECONDS: Final = 3600  # the rebalancer of this page is deleted an hour after it has finished


class WorkloadAct(ActPage):
    """Base of the acts on a workload, by its binding."""

    @property
    def ref(self) -> Ref:
        """The reference of the binding."""
        return binding_ref(self.kwargs["namespace"], self.kwargs["name"])

    @property
    def back(self) -> str:  # type: ignore[override]  # depends on the URL
        return binding_url(self.ref)

    def basis(self) -> str:
        meta = self.binding().metadata
        return f"{meta.uid}/{meta.generation}"  # a later failover, for example, changes the spec

    def binding(self) -> Binding:
        """Return the binding of the URL. Raises NotFound."""
        configuration().settings()  # reads the kinds that users have defined meanwhile
        ref = self.ref
        found: Binding | None = store().get([ref]).get(ref)
        if found is None:
            resource = KINDS[ref.kind].resource
            raise NotFound.of(resource.plural, ref.name, group=resource.group)
        return found


class RevertPage(WorkloadAct):
    """Takes the latest failover of a workload back."""

    def asked(self, request: Request) -> Attributes:
        ref, resource = self.ref, KINDS[self.ref.kind].resource
        return Attributes(request.user, "create", resource.group, resource.plural, "revert", ref.namespace, ref.name)

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        binding, by = self.binding(), request.user.get_username()
        within = f" -n {binding.metadata.namespace}" if binding.metadata.namespace else ""

        def write(writer: Writer) -> Written:
            return writer.act(
                binding.ref, lambda live: reverted(live, writer.store, writer.settings, by=by, now=writer.now)
            )

        def apply(reason: str) -> str:
            write(self.writer(request, reason, act="Revert"))
            return self.back

        return Act(
            f"Take back the failover of {template_ref(binding).name}",
            binding.metadata.name,
            effects=lambda: of_write(write),
            apply=apply,
            kubectl=f"kubectl lifeboat revert {quote(binding.metadata.name)}{within}",
            explanation="The workload returns to its clusters before its latest failover. A copy that is there only "
            "because of that failover leaves once the others are healthy.",
        )


class RebalancePage(WorkloadAct):
    """Has the scheduler choose the clusters of a workload again."""

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "create", REBALANCER.group, REBALANCER.plural)

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        binding = self.binding()
        document = rebalancer(binding)

        def apply(reason: str) -> str:
            self.created_once(self.writer(request, reason, act="Rebalance"), KINDS[WORKLOAD_REBALANCER], document)
            return self.back

        return Act(
            f"Choose the clusters of {template_ref(binding).name} again",
            binding.metadata.name,
            effects=lambda: of_write(lambda writer: writer.create(KINDS[WORKLOAD_REBALANCER], document)),
            apply=apply,
            kubectl=f"kubectl create -f - <<< {quote(orjson.dumps(document).decode())}",
            explanation="The scheduler decides as for a new workload, and does not prefer the present clusters. "
            "Copies that it no longer wants are removed at once: they do not wait until new ones are healthy.",
        )


def rebalancer(binding: Binding) -> dict[str, Any]:
    """Return a WorkloadRebalancer for the workload of a binding, as a document."""
    resource = binding.spec.resource
    workload = {"apiVersion": resource.api_version, "kind": resource.kind, "name": resource.name}
    if resource.namespace:
        workload["namespace"] = resource.namespace
    return {
        "apiVersion": REBALANCER.api_version,
        "kind": REBALANCER.kind,
        "metadata": {"generateName": "rebalance-"},
        "spec": {"workloads": [workload], "ttlSecondsAfterFinished": KEPT_SECONDS},
    }
