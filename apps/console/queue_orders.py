"""/queue/order: hold, release, skip or expedite evictions, one or many, after a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any, Final

from django import forms
from django.utils.datastructures import MultiValueDict
from rest_framework.request import Request

from apps.api import authorization
from apps.api.authorization import Attributes
from apps.console.guard import Act, ActPage, Effects
from apps.console.queue import FILTERS, choice_of, query_of
from apps.failover.destinations import destinations
from apps.failover.orders import Ordered, order_all
from apps.failover.queue_page import EVERYTHING, WAITING, read_keys
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, RELEASE, SKIP, VERBS
from controlplane.eviction.refuge import Refuge
from controlplane.insight.preview_texts import order_text
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.eviction import CLUSTER_EVICTION, EVICTION
from controlplane.kinds.rows import ENDED, Eviction, eviction_key

MOST: Final = 500  # evictions of one order: a request takes about a second for them
SHOWN: Final = 10  # evictions that the dry run names
MEANINGS: Final = {
    HOLD: "They stay in the queue and are not evicted until they are released.",
    RELEASE: "Removes the Hold. Without a Hold, it removes all other orders of the eviction.",
    SKIP: "Their copies stay on the cluster until the taint goes. They leave the queue.",
    EXPEDITE: "They are evicted first, before all others that are due. Neither the rate nor their due time changes.",
}


class JoinedInput(forms.TextInput):
    """Takes all values of a name, as checkboxes send them, as one text with commas."""

    def value_from_datadict(self, data: Any, files: MultiValueDict[str, Any], name: str) -> str:
        return ",".join(filter(None, data.getlist(name)))


class OrderForm(forms.Form):
    """An order and the evictions that it is about: those that are named, or all that a filter finds."""

    verb = forms.ChoiceField(choices=[(verb, verb) for verb in VERBS.values()], label="Order")
    item = forms.CharField(
        required=False, widget=JoinedInput, label="Evictions", help_text="namespace/name of each, with commas between"
    )
    everything = forms.BooleanField(required=False, label="All evictions that the filter finds")
    cluster = forms.CharField(required=False, widget=forms.HiddenInput)  # the filter of the queue: these four
    namespace = forms.CharField(required=False, widget=forms.HiddenInput)
    state = forms.CharField(required=False, widget=forms.HiddenInput)
    reason_of = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if not values.get("everything") and not values.get("item"):
            self.add_error("item", "no eviction is chosen: choose some in the queue, or all that the filter finds")
        return values


class OrderPage(ActPage):
    """The dry run of an order, and the order."""

    title = "Order about evictions"
    form_class = OrderForm
    _keys: Sequence[str] = ()  # of the evictions that the page shows

    @property
    def back(self) -> str:  # type: ignore[override]  # depends on the filter
        sent = self.request._request.POST or self.request.query_params
        query = query_of(choice_of({**{name: sent.get(name) for name in FILTERS}, "reason": sent.get("reason_of")}))
        return f"/queue?{query}" if query else "/queue"

    def asked(self, request: Request) -> Attributes:
        sent = request._request.POST or request.query_params
        items = ",".join(sent.getlist("item")).split(",")
        spaces = {item.partition("/")[0].strip() for item in items if item}
        namespace = sent.get("namespace", "") if sent.get("everything") else spaces.pop() if len(spaces) == 1 else ""
        resource = KINDS[EVICTION].resource
        verb = sent.get("verb", HOLD).lower()
        return Attributes(request.user, "create", resource.group, resource.plural, verb, namespace)

    def parameters(self, form: forms.Form) -> list[tuple[str, Any]]:
        """Name the evictions that the page shows: those that a filter finds are others a minute later."""
        if not form.cleaned_data["everything"]:
            return super().parameters(form)
        named = [("verb", form.cleaned_data["verb"]), ("item", ",".join(map(_item, self._keys)))]
        return [*named, *((field.name, field.value()) for field in form.hidden_fields())]

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        verb, keys = values["verb"], keys_of(values)
        self._keys = keys
        for ref in {Ref.parse(key.rpartition("|")[0]) for key in keys}:
            _check(request, verb, ref)
        user = request.user.get_username()

        def apply(reason: str) -> str:
            order_all(keys, verb, reason=reason, by=user)
            return self.back

        count = len(keys)
        return Act(
            f"{verb} {count} eviction{'' if count == 1 else 's'}",
            verb.lower(),
            effects=lambda: effects(order_all(keys, verb, reason="dry run", by=user, dry_run=True), verb),
            apply=apply,
            kubectl=command(filter_command(values) if values["everything"] else _paths(keys), verb),
            explanation=MEANINGS[verb],
            is_destructive=verb in (SKIP, EXPEDITE),
        )


def keys_of(values: dict[str, Any]) -> list[str]:
    """Return the keys of the evictions that a form names. Raises BadRequest if they are more than MOST."""
    if values["everything"]:
        keys = read_keys(choice_of({**values, "reason": values["reason_of"]}), limit=MOST + 1)
    else:
        keys = [_key(item) for item in values["item"].split(",")]
    if len(keys) > MOST:
        raise BadRequest(
            f"more than {MOST} evictions are chosen; narrow the filter, set the rate to 0 at /queue/rates, or create "
            "an EvictionHold, which holds all that it selects"
        )
    return keys


def effects(found: Ordered, verb: str) -> Effects:
    """Return what an order would do, from its dry run."""
    rows = sorted(found.done, key=lambda row: row.key)
    namespaces = {Ref.parse(row.binding).namespace for row in rows}
    clusters = sorted({row.cluster for row in rows})
    lines = [*_lines(rows[:SHOWN], verb), *_more(len(rows), "more")]
    lines += [*list(found.refused.values())[:SHOWN], *_more(len(found.refused), "more have already been evicted")]
    lines += [f"{_item(key)} is no longer in the eviction queue" for key in found.gone[:SHOWN]]
    lines += _more(len(found.gone), "more are no longer in the eviction queue")
    if not rows:
        return Effects(
            "No eviction would get the order.", lines=tuple(lines), refused="none of the chosen evictions waits"
        )
    count = f"{len(rows)} eviction{'' if len(rows) == 1 else 's'}"
    places = f"{len(namespaces)} namespace{'' if len(namespaces) == 1 else 's'}"
    return Effects(f"{verb}: {count} from {', '.join(clusters)}, in {places}.", len(rows), tuple(lines))


def _more(number: int, words: str) -> list[str]:
    """Return a line about what is beyond the first SHOWN of a number; []: nothing is."""
    return [f"and {number - SHOWN} {words}"] if number > SHOWN else []


def _lines(rows: Sequence[Eviction], verb: str) -> Iterator[str]:
    """Yield a line about each eviction: what the order does to its workload, as the API says it."""
    refuges: dict[str, Refuge] = {}
    if verb == EXPEDITE:
        refuges = destinations(store(), rows, situation_of(store()), configuration().settings())
    now = store().now()
    for row in rows:
        yield order_text(verb, row, refuges.get(row.key), now=now).removeprefix("effects: ")


def command(paths: str, verb: str) -> str:
    """Return the command that gives the same order. `paths`: of evictions in the API, as words of the shell."""
    resource = KINDS[EVICTION].resource
    create = f"kubectl create --raw /apis/{resource.group}/{resource.version}"
    body = f'{verb.lower()} -f - <<< \'{{"reason": "…"}}\''
    if " " not in paths:
        return f"{create}/{paths}/{body}"
    return f"for e in {paths}; do {create}/$e/{body}; done"


def filter_command(values: dict[str, Any]) -> str:
    """Return the part of a shell command that prints the API paths of the evictions that a filter finds.

    Evictions of cluster-scoped bindings are not included."""
    choice = choice_of({**values, "reason": values["reason_of"]})
    states = {WAITING: [f"status.state!={state}" for state in ENDED], EVERYTHING: []}
    selectors = states.get(choice.state, [f"status.state={choice.state}"])
    selectors += [f"spec.cluster={quote(choice.cluster)}"] if choice.cluster else []
    selectors += [f"status.reason={quote(choice.reason)}"] if choice.reason else []
    where = f"-n {quote(choice.namespace)}" if choice.namespace else "-A"
    form = "'{range .items[*]}namespaces/{.metadata.namespace}/evictions/{.metadata.name} {end}'"
    selected = f" --field-selector {','.join(selectors)}" if selectors else ""
    return f"$(kubectl get evictions {where}{selected} -o jsonpath={form})"


def _paths(keys: Sequence[str]) -> str:
    return " ".join(quote(_path(key)) for key in keys)


def _path(key: str) -> str:
    text, _, cluster = key.rpartition("|")
    ref = Ref.parse(text)
    kind = KINDS[EVICTION if ref.namespace else CLUSTER_EVICTION].resource
    place = f"namespaces/{ref.namespace}/" if ref.namespace else ""
    return f"{place}{kind.plural}/{ref.name}.{cluster}"


def _key(item: str) -> str:
    """Return the key of an eviction by its namespace and name. Raises BadRequest for another text."""
    namespace, slash, name = item.strip().partition("/")
    binding, dot, cluster = name.rpartition(".")
    if not slash or not dot:
        raise BadRequest(
            f'"{item}" is not an eviction; write namespace/binding.cluster, as kubectl get evictions -A shows it'
        )
    ref = Ref(RESOURCE_BINDING, namespace, binding) if namespace else Ref(CLUSTER_RESOURCE_BINDING, "", binding)
    return eviction_key(ref, cluster)


def _item(key: str) -> str:
    """Return the namespace and name of an eviction by its key."""
    binding, _, cluster = key.rpartition("|")
    ref = Ref.parse(binding)
    return f"{ref.namespace}/{ref.name}.{cluster}"


def _check(request: Request, verb: str, ref: Ref) -> None:
    """Raise Forbidden unless the user may give this order about evictions of a binding, as the API decides it."""
    kind = KINDS[EVICTION if ref.namespace else CLUSTER_EVICTION].resource
    asked = Attributes(request.user, "create", kind.group, kind.plural, verb.lower(), ref.namespace)
    authorization.check(asked)
