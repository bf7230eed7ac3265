"""GET /drills: game days and their reports. /drills/start begins a drill, /drills/<name>/stop ends it."""

from __future__ import annotations

import json
import shlex
from typing import Any, ClassVar, Final

from django import forms
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.dry_run import dry_run
from apps.console.guard import Act, ActPage, Effects
from apps.console.own_namespaces import namespaces_with_workloads
from apps.console.page import Page
from apps.failover.drills import newest_drills
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.widgets import CheckBoxes
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import NotFound, StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.insight.changes import ClustersDrained
from controlplane.kinds import CLUSTER, KINDS
from controlplane.kinds.drill import DRAIN, DRILL, FAILED, MODES, PASSED, RETURNING, RUNNING, SIMULATED, Drill

RESOURCE: Final = KINDS[DRILL].resource
SHOWN: Final = 100  # drills on the page
BADGES: Final = {PASSED: "ok", FAILED: "bad", RUNNING: "info", RETURNING: "info"}


def badge_of(drill: Drill) -> tuple[str, str]:
    """Return the state of a drill as the template tag `badge` shows it: class and word."""
    word = drill.status.result or drill.status.phase or "Waiting"
    return BADGES.get(word, "off"), word


class DrillsPage(Page):
    """The newest drills with their results."""

    title = "Drills"
    template_name = "console/drills.html"
    topics: ClassVar = {"drills": (DRILL,)}
    resource = RESOURCE

    def kubectl(self) -> str:
        return "kubectl get drills"

    def context(self, request: Request) -> dict[str, Any]:
        rows = [(one, badge_of(one)) for one in newest_drills(SHOWN)]
        return {"rows": rows, "shown": SHOWN, "may_start": self.may(request, "create", RESOURCE)}


class DrillPage(Page):
    """The report of a drill."""

    template_name = "console/drill.html"
    resource = RESOURCE

    def kubectl(self) -> str:
        return f"kubectl get drill {self.kwargs['name']} -o yaml"

    def subjects(self) -> dict[str, tuple[str, ...]]:
        return {"drill": (str(Ref(DRILL, "", self.kwargs["name"])),)}

    def context(self, request: Request) -> dict[str, Any]:
        drill = found(self.kwargs["name"])
        name, open_ = drill.metadata.name, not drill.is_over
        findings = [(Ref.parse(one.binding), one.message) for one in drill.status.findings]
        may_stop = open_ and self.may(request, "patch", RESOURCE, name=name)
        shown = {
            "drill": drill,
            "badge": badge_of(drill),
            "findings": findings,
            "may_stop": may_stop,
            "over": not open_,
        }
        return {**shown, "title": f"Drill {name}"}


def found(name: str) -> Drill:
    """Return a drill. Raises NotFound."""
    ref = Ref(DRILL, "", name)
    drill: Drill | None = store().get([ref]).get(ref)
    if drill is None:
        raise NotFound.of(RESOURCE.plural, name, group=RESOURCE.group)
    return drill


class StartForm(forms.Form):
    """The fields of a new drill."""

    mode = forms.ChoiceField(
        choices=[
            (SIMULATED, "Simulated: compute what the loss would do; nothing moves"),
            (DRAIN, "Drain: really empty the clusters, which stay cordoned"),
        ]
    )
    clusters = forms.MultipleChoiceField(
        widget=CheckBoxes,
        help_text="One, or several at the same time.",
        error_messages={"invalid_choice": "%(value)s: there is no such cluster"},
    )
    returns = forms.BooleanField(
        label="And return",
        required=False,
        help_text="Drain: afterwards uncordon the clusters and return the workloads.",
    )
    namespaces = forms.MultipleChoiceField(
        required=False,
        widget=CheckBoxes,
        help_text="The criteria count workloads in these. None chosen: in all.",
        error_messages={"invalid_choice": "%(value)s: no workload runs in such a namespace"},
    )
    labels = forms.CharField(
        required=False, help_text="The criteria count workloads with these labels: app=web,tier=shop. Empty: all."
    )
    rate = forms.FloatField(min_value=0.001, initial=0.5, required=False, help_text="Drain: bindings per second.")
    seconds = forms.IntegerField(
        label="Seconds at most", min_value=1, initial=3600, help_text="Time in which all workloads have to be moved."
    )
    without_place = forms.IntegerField(label="Without a place at most", min_value=0, initial=0)
    healthy = forms.IntegerField(
        label="Healthy copies at least", min_value=0, initial=1, help_text="Drain: of each workload, all the time."
    )

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        """Offer the clusters that exist, and the namespaces with workloads that the user may list."""
        super().__init__(*args, **kwargs)
        names = [one.metadata.name for one in store().list(CLUSTER)]
        for field, choices in (("clusters", names), ("namespaces", namespaces_with_workloads(user))):
            self.fields[field].choices = [(name, name) for name in choices]  # type: ignore[attr-defined]

    def clean_labels(self) -> dict[str, str]:
        """Return the labels. Raises ValidationError for a text that is not a list of labels."""
        pairs = [part.partition("=") for part in self.cleaned_data["labels"].split(",") if part.strip()]
        if any(not key.strip() or not equals for key, equals, _ in pairs):
            raise forms.ValidationError("Write labels as app=web,tier=shop.")
        return {key.strip(): value.strip() for key, _, value in pairs}


def drill_of(values: dict[str, Any]) -> dict[str, Any]:
    """Return the Drill of the values of a StartForm."""
    spec: dict[str, Any] = {
        "mode": values["mode"],
        "clusters": values["clusters"],
        "criteria": {
            "maxDurationSeconds": values["seconds"],
            "maxWithoutPlace": values["without_place"],
            "minHealthyCopies": values["healthy"],
        },
    }
    if values["rate"]:
        spec["rate"] = values["rate"]
    if values["returns"]:
        spec["returns"] = True
    if values["namespaces"]:
        spec["namespaces"] = values["namespaces"]
    if values["labels"]:
        spec["selector"] = {"matchLabels": values["labels"]}
    head = {"apiVersion": RESOURCE.api_version, "kind": RESOURCE.kind, "metadata": {"generateName": "drill-"}}
    return {**head, "spec": spec}


class StartPage(ActPage):
    """Begins a drill."""

    form_class = StartForm
    title = "Start a drill"
    back = "/drills"

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "create", RESOURCE.group, RESOURCE.plural)

    def first_values(self, request: Request) -> dict[str, Any]:
        return {"mode": MODES[0]}

    def _form(self, sent: Any) -> forms.Form:
        return StartForm(sent, user=self.request.user)

    def _empty(self, request: Request) -> forms.Form:
        return StartForm(initial=self.first_values(request), user=request.user)

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        document = drill_of(values)
        clusters = document["spec"]["clusters"]
        named = ", ".join(clusters)

        def effects() -> Effects:
            author = Author(request.user.get_username(), "Drill")
            trial = Writer(store(), configuration().settings(), author, dry_run=True)
            try:
                trial.create(KINDS[DRILL], document)
            except StatusError as error:
                return Effects("Nothing.", refused=error.message)
            if values["mode"] == SIMULATED:
                return Effects(f"Computes the loss of {named} and keeps the report. Nothing moves.")
            return dry_run([ClustersDrained(tuple(clusters), document["spec"].get("rate", 0.5))], request.user)

        def apply(reason: str) -> str:
            written = {**document, "spec": {**document["spec"], "reason": reason}}
            return f"/drills/{self.created_once(self.writer(request, reason, act='Drill'), KINDS[DRILL], written)}"

        is_real = values["mode"] == DRAIN
        return Act(
            name=f"Start a drill: {'drain' if is_real else 'simulate the loss of'} {named}",
            subject=named,
            effects=effects,
            apply=apply,
            kubectl=f"kubectl create -f - <<< {shlex.quote(json.dumps(document))}",
            explanation=_explanation(document["spec"]) if is_real else "",
            is_destructive=is_real,
        )


def _explanation(spec: dict[str, Any]) -> str:
    if spec.get("returns"):
        return "The clusters are cordoned. Afterwards they are uncordoned, and the workloads return with Failbacks."
    return "The clusters are cordoned, and stay cordoned afterwards."


class StopPage(ActPage):
    """Ends a drill without a result."""

    back = "/drills"

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "patch", RESOURCE.group, RESOURCE.plural, name=self.kwargs["name"])

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        drill = found(self.kwargs["name"])
        name = drill.metadata.name

        def apply(reason: str) -> str:
            writer = self.writer(request, reason, act="StopDrill")
            writer.act(drill.ref, lambda live: live.with_spec(stop=True))
            return f"/drills/{name}"

        left = drill.status.workloads - drill.status.moved
        return Act(
            name=f"Stop drill {name}",
            subject=name,
            effects=lambda: Effects(
                f"Ends the drill without a result, and stops its Drains. {left} workloads have not moved.",
                refused="the drill is over" if drill.is_over else "",
            ),
            apply=apply,
            kubectl=f'kubectl patch drill {name} --type merge -p \'{{"spec": {{"stop": true}}}}\'',
            is_destructive=False,
        )
