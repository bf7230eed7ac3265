"""Acts on orders that run: a drain or failback is stopped or resumed, a maintenance is ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.guard import Act, ActPage, Already, Effects
from apps.console.object_links import cluster_url
from apps.objects.store import store
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS
from controlplane.kinds import MAINTENANCE_WINDOW
from controlplane.kinds.drain import DRAIN, Drain
from controlplane.kinds.failback import FAILBACK, Failback
from controlplane.kinds.maintenance_window import MaintenanceWindow


class Verb(NamedTuple):
    """What an act does with an order. `stop`: the new value of spec.stop; None: the order is deleted."""

    title: str
    stop: bool | None
    effects: Callable[[Any], Effects]
    kubectl: str


def _of_drain(one: Drain) -> Effects:
    status = one.status
    return Effects(
        f"{status.remaining} workloads stay on {one.spec.cluster}; {status.leaving} that leave finish their move. "
        "The cluster stays cordoned."
    )


def _of_failback(one: Failback) -> Effects:
    status = one.status
    return Effects(f"{status.remaining} workloads stay where they are; {len(status.returning)} finish their return.")


def _of_resume(one: Drain | Failback) -> Effects:
    count = one.status.remaining
    return Effects(f"The remaining {count} workloads move, at {one.spec.rate:g}/s.", count)


def _of_window(one: MaintenanceWindow) -> Effects:
    names = ", ".join(one.spec.clusters)
    return Effects(f"For {names}: the tier counts failures again, and a cluster that is not Ready is evicted.")


_STOP: Final = 'kubectl patch {kind} {name} --type merge -p \'{{"spec": {{"stop": {value}}}}}\''
VERBS: Final = {
    ("drains", "stop"): (DRAIN, Verb("Stop the drain", True, _of_drain, _STOP)),
    ("drains", "resume"): (DRAIN, Verb("Resume the drain", False, _of_resume, _STOP)),
    ("failbacks", "stop"): (FAILBACK, Verb("Stop the failback", True, _of_failback, _STOP)),
    ("failbacks", "resume"): (FAILBACK, Verb("Resume the failback", False, _of_resume, _STOP)),
    ("maintenancewindows", "end"): (
        MAINTENANCE_WINDOW,
        Verb("End the maintenance", None, _of_window, "kubectl delete {kind} {name}"),
    ),
}


class OrderActPage(ActPage):
    """/orders/<plural>/<name>/<verb>."""

    def asked(self, request: Request) -> Attributes:
        kind, verb = self._verb()
        resource = KINDS[kind].resource
        asked = "delete" if verb.stop is None else "patch"
        return Attributes(request.user, asked, resource.group, resource.plural, name=self.kwargs["name"])

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        kind, verb = self._verb()
        ref, resource = Ref(kind, "", self.kwargs["name"]), KINDS[kind].resource
        found = store().get([ref]).get(ref)
        if found is None:
            raise NotFound.of(resource.plural, ref.name, group=resource.group)
        clusters = found.spec.clusters if isinstance(found, MaintenanceWindow) else (found.spec.cluster,)
        back = cluster_url(clusters[0]) if clusters and clusters[0] else "/clusters"

        def apply(reason: str) -> str:
            writer = self.writer(request, reason, act=verb.title)
            if verb.stop is None:
                writer.delete([ref])
            else:
                writer.act(ref, lambda live: live.with_spec(stop=verb.stop))
            return back

        kubectl = verb.kubectl.format(kind=resource.singular, name=ref.name, value=str(verb.stop).lower())
        title = f"{verb.title} {ref.name}"
        effects, already = verb.effects, None
        if verb.stop is not None and found.spec.stop == verb.stop:
            state = "is stopped" if verb.stop else "runs"
            already = Already(title, f"the {resource.singular} {ref.name} {state} already", back)
        return Act(
            title,
            ref.name,
            lambda: effects(found),
            apply,
            kubectl,
            is_destructive=verb.stop is not True,
            already=already,
        )

    def already(self, values: dict[str, Any]) -> Already:
        kind, verb = self._verb()
        why = f"the {KINDS[kind].resource.singular} {self.kwargs['name']} has ended already"
        return Already(verb.title, why, "/clusters")

    def _verb(self) -> tuple[str, Verb]:
        """Return the kind and the verb of the URL. Raises NotFound."""
        known = VERBS.get((self.kwargs["plural"], self.kwargs["verb"]))
        if known is None:
            raise NotFound(f"{self.kwargs['plural']} have no act {self.kwargs['verb']}")
        return known
