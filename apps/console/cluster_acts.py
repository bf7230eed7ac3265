"""Acts on a cluster: cordon, taints, drain, maintenance, fence, failback and unjoin, each behind the guard rail."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from shlex import quote
from typing import Any, ClassVar, Final

import orjson
from django import forms
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.clusters.admin import cordoned, uncordoned
from apps.console.dry_run import dry_run, of_write
from apps.console.guard import Act, ActPage, Already, Effects
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import Author, Writer, document_of
from apps.objects.writer import Change as Written
from apps.objects.writer import Written as Stored
from controlplane.apimachinery.errors import NotFound, StatusError
from controlplane.apimachinery.meta import Ref, to_seconds
from controlplane.apimachinery.names import UNJOIN_ANNOTATION
from controlplane.clusters.fence import LONGEST_SECONDS, FenceRequest, fence_of, fenced
from controlplane.clusters.taints import staying, stays_because
from controlplane.engine.decision import Put
from controlplane.insight.changes import ClusterRemoved, ClustersDrained, Cordoned, Failback, TaintAdded, TaintRemoved
from controlplane.kinds import CLUSTER, KINDS, MAINTENANCE_WINDOW
from controlplane.kinds.cluster import EFFECTS, Cluster, Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.failback import FAILBACK, MOST_AT_ONCE

RESOURCE: Final = KINDS[CLUSTER].resource
Taints = list[dict[str, Any]]


class ClusterAct(ActPage):
    """Base of the acts on a cluster. Reading the cluster needs no right of its own: the act needs a stronger one."""

    verb: ClassVar[str] = "patch"
    kind: ClassVar[str] = CLUSTER
    sub: ClassVar[str] = ""

    def asked(self, request: Request) -> Attributes:
        resource = KINDS[self.kind].resource
        name = self.kwargs["name"] if self.kind == CLUSTER else ""
        return Attributes(request.user, self.verb, resource.group, resource.plural, self.sub, name=name)

    @property
    def back(self) -> str:  # type: ignore[override]  # depends on the URL
        return f"/clusters/{self.kwargs['name']}"

    def basis(self) -> str:
        return self.cluster().metadata.uid  # a cluster that has joined again under its name is another one

    def cluster(self) -> Cluster:
        """Return the cluster of the URL. Raises NotFound."""
        ref = Ref(CLUSTER, "", self.kwargs["name"])
        found: Cluster | None = store().get([ref]).get(ref)
        if found is None:
            raise NotFound.of(RESOURCE.plural, ref.name, group=RESOURCE.group)
        return found

    def created(self, request: Request, spec: dict[str, Any], reason: str, *, act: str) -> str:
        """Create an order and return the page where its progress is shown. Raises StatusError."""
        self.created_once(self.writer(request, reason, act=act), KINDS[self.kind], self.order(spec, reason))
        return self.back

    def refusal(self, spec: dict[str, Any]) -> str:
        """Return why the API would refuse an order now; "": it would not."""
        writer = Writer(store(), configuration().settings(), Author("", "DryRun"), dry_run=True)
        try:
            writer.create(KINDS[self.kind], self.order(spec, "dry run"))
        except StatusError as error:
            return error.message
        return ""

    def order(self, spec: dict[str, Any], reason: str) -> dict[str, Any]:
        """Return an order about the cluster as a document."""
        resource, metadata = KINDS[self.kind].resource, {"generateName": f"{self.kwargs['name']}-"}
        whole = {**spec, "reason": reason}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": whole}

    def with_taints(self, request: Request, change: Callable[[Taints], Taints], reason: str, *, act: str) -> str:
        """Change the taints of the cluster as an edit of its manifest would."""
        writer, ref = self.writer(request, reason, act=act), Ref(CLUSTER, "", self.kwargs["name"])

        def build() -> Written:
            live = writer.live(ref)
            document = document_of(live)
            spec = document.setdefault("spec", {})
            spec["taints"] = change(spec.get("taints", []))
            admitted = writer.admit_change(KINDS[CLUSTER], document, live)
            return Written(Put(admitted.object, live), admitted.warnings)

        writer.change(ref, build)
        return self.back


class CordonPage(ClusterAct):
    """Keeps new workloads away from a cluster."""

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        name = self.cluster().metadata.name
        return Act(
            f"Cordon {name}",
            name,
            effects=lambda: dry_run([Cordoned((name,))], request.user),
            apply=lambda reason: self.with_taints(request, cordoned, reason, act="Cordon"),
            kubectl=f"kubectl lifeboat cordon {name}",
            explanation="No new workloads are placed on the cluster. What runs there stays.",
            is_destructive=False,
        )


class UncordonPage(ClusterAct):
    """Lets new workloads be placed on a cluster again."""

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        name = self.cluster().metadata.name
        return Act(
            f"Uncordon {name}",
            name,
            effects=lambda: Effects("New workloads may be placed on the cluster again. Nothing moves."),
            apply=lambda reason: self.with_taints(request, uncordoned, reason, act="Uncordon"),
            kubectl=f"kubectl lifeboat uncordon {name}",
            is_destructive=False,
        )


class TaintForm(forms.Form):
    """A taint to add."""

    key = forms.CharField(max_length=316, help_text="For example example.com/storage")
    value = forms.CharField(max_length=63, required=False)
    effect = forms.ChoiceField(
        choices=[(effect, effect) for effect in EFFECTS],
        help_text="NoExecute evicts all workloads that do not tolerate the taint.",
    )


class TaintPage(ClusterAct):
    """Adds a taint to a cluster."""

    title = "Add a taint"
    form_class = TaintForm

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        name = self.cluster().metadata.name
        taint = Taint(values["key"], values["effect"], values["value"])
        whole = {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})

        def added(taints: Taints) -> Taints:
            kept = [one for one in taints if (one.get("key"), one.get("effect")) != (taint.key, taint.effect)]
            return [*kept, whole]

        shown = f"{taint.key}={taint.value}:{taint.effect}"
        return Act(
            f"Add the taint {shown} to {name}",
            name,
            effects=lambda: dry_run([TaintAdded(name, taint)], request.user),
            apply=lambda reason: self.with_taints(request, added, reason, act="Taint"),
            kubectl=f"kubectl lifeboat taint {name} {quote(shown)}",
        )


class UntaintPage(ClusterAct):
    """Removes a taint from a cluster. The taint is in the query: key and effect."""

    form_class = TaintForm
    title = "Remove a taint"

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        cluster, identity = self.cluster(), (values["key"], values["effect"])
        name, shown = cluster.metadata.name, ":".join(identity)
        if identity not in {(taint.key, taint.effect) for taint in cluster.spec.taints}:
            raise NotFound(f"{name} has no taint {shown}")  # on POST: `already`

        def removed(taints: Taints) -> Taints:
            return [one for one in taints if (one.get("key"), one.get("effect")) != identity]

        def effects() -> Effects:
            if identity in staying(cluster, configuration().settings(), now=store().now()):
                return Effects("Nothing would change.", refused=stays_because(Taint(*identity)))
            found = dry_run([TaintRemoved(name, *identity)], request.user)
            return added_line(found, "What has moved does not move back.")

        return Act(
            f"Remove the taint {shown} from {name}",
            name,
            effects=effects,
            apply=lambda reason: self.with_taints(request, removed, reason, act="Untaint"),
            kubectl=f"kubectl lifeboat taint {name} {quote(shown)}-",
            explanation="A taint that a policy added, and that a user removes, is added again only after its cause was "
            "over.",
            is_destructive=False,
        )

    def already(self, values: dict[str, Any]) -> Already:
        name, shown = self.kwargs["name"], f"{values['key']}:{values['effect']}"
        return Already(self.title, f"{name} has no taint {shown} any more", self.back)


class DrainForm(forms.Form):
    """The rate of a drain."""

    rate = forms.FloatField(
        min_value=0.001,
        max_value=1000,
        initial=0.5,
        label="Workloads per second",
        help_text="The drain pauses while evictions from failed clusters are due.",
    )


class DrainPage(ClusterAct):
    """Creates a Drain of a cluster."""

    title = "Drain"
    form_class = DrainForm
    verb, kind = "create", DRAIN

    def first_values(self, request: Request) -> dict[str, Any]:
        return {"rate": 0.5}

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        name, rate = self.cluster().metadata.name, values["rate"]
        spec = {"cluster": name, "rate": rate}
        return Act(
            f"Drain {name}",
            name,
            effects=lambda: refusable(dry_run([ClustersDrained((name,), rate=rate)], request.user), self.refusal(spec)),
            apply=lambda reason: self.created(request, spec, reason, act="Drain"),
            kubectl=f"kubectl lifeboat drain {name} --rate {rate:g}",
            explanation="Moves all workloads away, gracefully: an old copy stays until its replacement is healthy. The "
            "cluster is cordoned first. Uncordon it yourself afterwards.",
        )


class MaintenanceForm(forms.Form):
    """The length of a maintenance that begins now."""

    minutes = forms.IntegerField(min_value=1, max_value=60 * 24 * 30, initial=60, label="Minutes, from now")


class MaintenancePage(ClusterAct):
    """Creates a MaintenanceWindow that begins now."""

    title = "Maintenance"
    form_class = MaintenanceForm
    verb, kind = "create", MAINTENANCE_WINDOW

    def first_values(self, request: Request) -> dict[str, Any]:
        return {"minutes": 60}

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        name, minutes = self.cluster().metadata.name, values["minutes"]
        until = to_seconds(store().now() + timedelta(minutes=minutes))

        spec = {"clusters": [name], "until": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
        order = orjson.dumps(self.order(spec, "…")).decode()
        return Act(
            f"Maintenance of {name}",
            name,
            effects=lambda: added_line(
                of_write(lambda writer: writer.create(KINDS[self.kind], self.order(spec, "dry run"))),
                f"Nothing is evicted from {name} until {until:%Y-%m-%d %H:%M} UTC, and it does not count as faulty.",
                "Failures are still detected. Afterwards evictions take place if the cluster is still down.",
            ),
            apply=lambda reason: self.created(request, spec, reason, act="Maintenance"),
            kubectl=f"kubectl create -f - <<< '{order}'",
            is_destructive=False,
        )


class FenceForm(forms.Form):
    """How long a fence is valid."""

    minutes = forms.IntegerField(
        min_value=1,
        max_value=LONGEST_SECONDS // 60,
        initial=60,
        label="Valid for (minutes)",
        help_text="At most a week",
    )


class FencePage(ClusterAct):
    """Confirms that a cluster is down, so that new copies of Directly evictions may start."""

    title = "Fence"
    form_class = FenceForm
    verb, sub = "create", "fence"

    def first_values(self, request: Request) -> dict[str, Any]:
        return {"minutes": 60}

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        cluster, seconds = self.cluster(), values["minutes"] * 60
        name, user = cluster.metadata.name, request.user.get_username()

        def write(writer: Writer, reason: str) -> Stored:
            fence = FenceRequest(reason, seconds)
            return writer.act(cluster.ref, lambda live: fenced(live, fence, by=user, now=writer.now))

        def apply(reason: str) -> str:
            write(self.writer(request, reason, act="Fence"), reason)
            return self.back

        def effects() -> Effects:
            if cluster.answers:
                return Effects("Nothing.", refused=f"{name} is Ready, so its copies run; cordon or drain it instead.")
            found = of_write(lambda writer: write(writer, "dry run"))
            return added_line(found, "New copies start even if old copies still run on the cluster unseen.")

        return Act(
            f"Fence {name}",
            name,
            effects=effects,
            apply=apply,
            kubectl=f"kubectl lifeboat fence {name} --for {values['minutes']}m",
            explanation="Fence a cluster only if you know that it is down: powered off, or cut off from its storage.",
            threshold=-1,
        )


class UnfencePage(ClusterAct):
    """Removes a fence."""

    verb, sub = "create", "fence"

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        cluster, user = self.cluster(), request.user.get_username()
        name = cluster.metadata.name

        def write(writer: Writer) -> Stored:
            return writer.act(cluster.ref, lambda live: fenced(live, FenceRequest(), by=user, now=writer.now))

        def apply(reason: str) -> str:
            write(self.writer(request, reason, act="Unfence"))
            return self.back

        def effects() -> Effects:
            if fence_of(cluster) is None:
                return Effects("Nothing.", refused=f"{name} has no fence.")
            return of_write(write)

        return Act(
            f"Remove the fence of {name}",
            name,
            effects=effects,
            apply=apply,
            kubectl=f"kubectl lifeboat fence {name} --remove",
            is_destructive=False,
            already=Already("Unfence", f"{name} has no fence any more", self.back)
            if fence_of(cluster) is None
            else None,
        )


class FailbackForm(forms.Form):
    """The pace of a failback."""

    rate = forms.FloatField(min_value=0.001, max_value=1000, initial=0.5, label="Workloads per second")
    at_once = forms.IntegerField(min_value=1, max_value=MOST_AT_ONCE, initial=10, label="At the same time")


class FailbackPage(ClusterAct):
    """Creates a Failback to a cluster."""

    title = "Failback"
    form_class = FailbackForm
    verb, kind = "create", FAILBACK

    def first_values(self, request: Request) -> dict[str, Any]:
        return {"rate": 0.5, "at_once": 10}

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        cluster, rate, at_once = self.cluster(), values["rate"], values["at_once"]
        name = cluster.metadata.name
        spec = {"cluster": name, "rate": rate, "atOnce": at_once}
        return Act(
            f"Failback to {name}",
            name,
            effects=lambda: refusable(dry_run([Failback(name, rate=rate)], request.user), self.refusal(spec)),
            apply=lambda reason: self.created(request, spec, reason, act="Failback"),
            kubectl=f"kubectl lifeboat failback {name} --rate {rate:g} --at-once {at_once}",
            explanation="Returns workloads that left the cluster in a failover. Other copies stay until the copy here "
            "is healthy. The first failure stops the failback.",
        )


def added_line(effects: Effects, *lines: str) -> Effects:
    """Return the effects with more lines."""
    return effects._replace(lines=(*effects.lines, *lines))


def refusable(effects: Effects, why: str) -> Effects:
    """Return effects of an act that the API refuses for a reason; "": it does not refuse it.

    The reason of the dry run is shorter, so it is shown alone where the API gives the same.
    """
    if effects.refused and effects.refused in why:
        return effects
    return effects._replace(refused="; ".join(filter(None, (effects.refused, why))))


class UnjoinForm(forms.Form):
    """What becomes of the copies on a cluster that is unjoined."""

    copies = forms.ChoiceField(
        choices=[
            ("", "refuse if workloads are placed there (drain it first)"),
            ("keep", "keep: they go on running, unmanaged"),
            ("delete", "delete: they are removed from the cluster"),
        ],
        required=False,
        label="Copies on the cluster",
    )


class UnjoinPage(ClusterAct):
    """Deletes a Cluster."""

    title = "Unjoin"
    form_class = UnjoinForm
    verb = "delete"

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        cluster, copies = self.cluster(), values["copies"]
        name, change = cluster.metadata.name, ClusterRemoved(cluster.metadata.name, copies)

        def apply(reason: str) -> str:
            writer = self.writer(request, reason, act="Unjoin")
            if copies:
                writer.act(cluster.ref, lambda live: _with_unjoin(live, copies))
            writer.delete([cluster.ref])
            return "/clusters"

        return Act(
            f"Unjoin {name}",
            name,
            effects=lambda: refusable(dry_run([change], request.user), _annotated(cluster, copies)),
            apply=apply,
            kubectl=f"kubectl lifeboat unjoin {name}"
            + {"keep": " --keep", "delete": " --delete-copies"}.get(copies, ""),
            explanation="The cluster leaves the fleet. The deletion ends when nothing that Lifeboat manages is left.",
            threshold=-1,
            already=_leaving(cluster, copies),
        )

    def already(self, values: dict[str, Any]) -> Already:
        return Already(self.title, f"{self.kwargs['name']} has left", "/clusters")


def _leaving(cluster: Cluster, copies: str) -> Already | None:
    """Return that a cluster is being unjoined with the same choice about its copies; None: it is not."""
    if not cluster.terminating or copies not in ("", cluster.metadata.annotations.get(UNJOIN_ANNOTATION, "")):
        return None
    return Already("Unjoin", f"{cluster.metadata.name} is being unjoined", "/clusters")


def _annotated(cluster: Cluster, copies: str) -> str:
    """Return why a deletion would not be refused for workloads on a cluster, although this was chosen; "": it would.

    An annotation, for example of an earlier attempt, decides for every deletion that does not change it.
    """
    decided = cluster.metadata.annotations.get(UNJOIN_ANNOTATION, "")
    if copies or not decided:
        return ""
    return (
        f"the cluster has the annotation {UNJOIN_ANNOTATION}={decided}, which decides about its copies: choose keep or "
        "delete here, or remove the annotation"
    )


def _with_unjoin(live: Cluster, copies: str) -> Cluster:
    return live.with_meta(annotations={**live.metadata.annotations, UNJOIN_ANNOTATION: copies})


ACTS: Final[dict[str, type[ClusterAct]]] = {
    "cordon": CordonPage,
    "uncordon": UncordonPage,
    "taint": TaintPage,
    "untaint": UntaintPage,
    "drain": DrainPage,
    "maintenance": MaintenancePage,
    "fence": FencePage,
    "unfence": UnfencePage,
    "failback": FailbackPage,
    "unjoin": UnjoinPage,
}
"""The acts by the last part of their URLs."""
