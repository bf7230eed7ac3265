"""GET /what-if: asks what changes would do to the workloads; GET /what-if/<name>: the answer, or how far it is.

Nothing is changed. Small questions are answered at once, large ones in the background (`failover.what_if_runs`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from django import forms
from django.http import HttpResponseBase, HttpResponseRedirect
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.console.object_links import binding_url
from apps.console.page import Page
from apps.failover import what_if_runs
from apps.objects.store import store
from apps.objects.what_if import effects_of, is_small, readable_status, status_of
from apps.objects.widgets import SelectOne, SelectSeveral
from controlplane.apimachinery.errors import NotFound, StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.insight.change_sentence import change_sentence
from controlplane.insight.changes import (
    Change,
    ClustersDrained,
    ClustersLost,
    PolicyEdited,
    TaintAdded,
    decoded_changes,
)
from controlplane.insight.effects import LISTS, Affected, Effects
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import EFFECTS, NO_EXECUTE, Cluster, Taint
from controlplane.kinds.what_if import FINISHED, RESOURCE, RUNNING, WhatIfStatus
from controlplane.wire.body import decode_value

SHOWN: Final = 100  # workloads of each table
GROUPS: Final = {  # field of Effects → title, badge, what it means
    "moves": ("Moves", "info", "leaves a cluster"),
    "placed": ("Placed", "info", "is on no cluster now, and gets a place"),
    "without_place": ("Without a place", "bad", "stays, because the scheduler finds no other cluster"),
    "waits_for_person": ("Waits for a person", "warn", "leaves, but starts elsewhere only after an action"),
    "held": ("Held", "warn", "stays for now"),
    "removed": ("Removed", "bad", "its copies are removed"),
    "overridden": ("Changed", "info", "its copy on this cluster gets another content"),
    "stays": ("Stays", "ok", "tolerates the taints"),
}


class QuestionForm(forms.Form):
    """The changes of a question. All that are set happen at the same time."""

    lost = forms.MultipleChoiceField(widget=SelectSeveral, label="Clusters lost", required=False)
    regions = forms.MultipleChoiceField(widget=SelectSeveral, label="Regions lost", required=False)
    providers = forms.MultipleChoiceField(widget=SelectSeveral, label="Providers lost", required=False)
    drained = forms.MultipleChoiceField(widget=SelectSeveral, label="Clusters drained", required=False)
    rate = forms.FloatField(label="Rate of each drain, in bindings per second", required=False, min_value=0.001)
    tainted = forms.ChoiceField(widget=SelectOne, label="Cluster with a new taint", required=False)
    key = forms.CharField(label="Key of the taint", required=False, max_length=253)
    value = forms.CharField(label="Value of the taint", required=False, max_length=63)
    effect = forms.ChoiceField(label="Effect of the taint", required=False, choices=[(one, one) for one in EFFECTS])
    policy = forms.CharField(
        label="A policy, created or edited",
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
        help_text="YAML of a PropagationPolicy, ClusterPropagationPolicy or ClusterTaintPolicy.",
    )

    def __init__(self, data: Any = None, *, clusters: Sequence[Cluster], initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)
        names = [one.metadata.name for one in clusters]
        choices = {
            "lost": names,
            "regions": sorted({one.spec.region for one in clusters} - {""}),
            "providers": sorted({one.spec.provider for one in clusters} - {""}),
            "drained": names,
            "tainted": ["", *names],
        }
        for name, values in choices.items():
            self.fields[name].choices = [(value, value or "none") for value in values]  # type: ignore[attr-defined]

    def clean_policy(self) -> Any:
        """Return the policy as a document; None: none is given. Raises ValidationError if it is no YAML mapping."""
        text = self.cleaned_data["policy"].strip()
        if not text:
            return None
        try:
            document = decode_value("application/yaml", text.encode(errors="replace"))
        except StatusError as error:
            raise forms.ValidationError(f"This is not YAML: {error.message}") from None
        if not isinstance(document, dict):
            raise forms.ValidationError("Write one policy, with apiVersion, kind, metadata and spec.")
        return document

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("tainted") and not found.get("key"):
            self.add_error("key", "Write the key of the taint, for example example.com/maintenance.")
        if not self.errors and not self.changes():
            raise forms.ValidationError("Choose at least one change.")
        return found

    def changes(self) -> tuple[Change, ...]:
        """Return the changes that are set."""
        found = self.cleaned_data
        changes: list[Change] = []
        if found["lost"] or found["regions"] or found["providers"]:
            changes.append(ClustersLost(*(tuple(found[name]) for name in ("lost", "regions", "providers"))))
        if found["drained"]:
            changes.append(ClustersDrained(tuple(found["drained"]), found["rate"] or 0.5))
        if found["tainted"] and found.get("key"):
            taint = Taint(found["key"], found["effect"] or NO_EXECUTE, found["value"])
            changes.append(TaintAdded(found["tainted"], taint))
        if found["policy"]:
            changes.append(PolicyEdited(found["policy"]))
        return tuple(changes)


class WhatIfPage(Page):
    """The form of a question. Its fields may be set in the URL: /what-if?lost=member1."""

    title = "What if"
    template_name = "console/what_if.html"

    def attributes(self, request: Request) -> Attributes:
        return Attributes(request.user, "create", RESOURCE.group, RESOURCE.plural)

    def kubectl(self) -> str:
        return _command([ClustersLost(("member1",))])

    def context(self, request: Request) -> dict[str, Any]:
        given = request.query_params
        initial: dict[str, Any] = {
            name: given.getlist(name) for name in ("lost", "regions", "providers", "drained") if name in given
        }
        initial |= {name: given[name] for name in ("tainted", "key", "value", "effect") if name in given}
        return {"form": QuestionForm(clusters=store().list(CLUSTER), initial={"effect": NO_EXECUTE, **initial})}

    def post(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        form = QuestionForm(request._request.POST, clusters=store().list(CLUSTER))
        if not form.is_valid():
            return self.show(request, {"form": form}, status=422)
        changes, user = form.changes(), request.user.get_username()
        if is_small(store(), changes):
            name = what_if_runs.keep(changes, status_of(effects_of(store(), changes)), user=user)
        else:
            name = what_if_runs.start(changes, user=user)
        return HttpResponseRedirect(f"/what-if/{name}", status=303)


class WhatIfRunPage(Page):
    """The answer to a question. While it is worked out, the page asks for its progress every second."""

    title = "What if"
    template_name = "console/what_if_run.html"
    topics: ClassVar = {"run": ()}
    _run: what_if_runs.Run | None = None

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope(name=self.kwargs["name"]))

    def kubectl(self) -> str:
        return "" if self._run is None else _command(decoded_changes(self._run.changes)[0])

    def context(self, request: Request) -> dict[str, Any]:
        run = self._run = what_if_runs.find(self.kwargs["name"], user=request.user.get_username())
        if run is None:
            raise NotFound("there is no such question of yours, or its answer has expired: ask again at /what-if")
        shown = {
            "run": run,
            "status": run.status,
            "running": run.status.phase == RUNNING,
            "asked": [change_sentence(change) for change in decoded_changes(run.changes)[0]],
        }
        answer = _answer(readable_status(run.status, request.user))
        return {**shown, "url": f"/what-if/{self.kwargs['name']}", **answer}


class WorkloadLine(NamedTuple):
    """A workload as a table shows it."""

    url: str
    workload: str
    left: str
    to: str
    message: str
    at: Any


def _answer(status: WhatIfStatus) -> dict[str, Any]:
    """Return the variables of a finished answer. {}: it is not finished."""
    if status.phase != FINISHED:
        return {}
    effects = msgspec.convert(status.effects, Effects)
    groups = []
    for field, (title, badge, meaning) in GROUPS.items():
        found: Sequence[Affected] = getattr(effects, field)
        hidden = effects.hidden.get(LISTS[field], 0)
        if found or hidden:
            shown = [_line(one) for one in found[:SHOWN]]
            groups.append((field, title, badge, meaning, len(found) + hidden, shown, hidden))
    return {"effects": effects, "groups": groups, "most": SHOWN}


def _line(one: Affected) -> WorkloadLine:
    url = binding_url(Ref.parse(one.binding))
    return WorkloadLine(url, one.workload, _counts(one.from_), _counts(one.to), one.message, one.at)


def _counts(by_cluster: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" if count else name for name, count in sorted(by_cluster.items()))


def _command(changes: Sequence[Change]) -> str:
    """Return the command that asks the same question."""
    spec = {"changes": msgspec.to_builtins(changes)}
    body = json.dumps({"apiVersion": RESOURCE.api_version, "kind": RESOURCE.kind, "spec": spec}, separators=(",", ":"))
    quoted = body.replace("'", "'\\''")
    path = f"/apis/{RESOURCE.api_version}/{RESOURCE.plural}"
    return f"echo '{quoted}' | kubectl create --raw {path} -f -"
