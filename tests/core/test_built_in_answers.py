"""Built-in kinds are held to the rules of Kubernetes: our answers are those that a kube-apiserver gave.

tests/built_in has the requests and the answers. Compared are the code, the field, reason and words of every cause, and
the stored object with its defaults.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from controlplane.admission.admit import Admitted, admit_create, admit_update
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.quantities import QuantityError, parse
from controlplane.kind import KINDS, Kind, text_of
from controlplane.settings import Settings
from tests.built_in.requests import Base, Change, Document, bases, requests

pytestmark = pytest.mark.slow  # 2,883 answers take a tenth of what make check may take

ANSWERS = Path(__file__).parents[1] / "built_in" / "answers.json.xz"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MOST_DIFFERENCES = 0.01  # of all requests

# Where we answer in another way, and why: the base, the changed path, how many answers differ.
DIFFERENCES: tuple[tuple[str, str, str, int], ...] = (
    ("Pod alone", "spec.serviceAccountName", "a member looks the account up (403); here the name is checked", 3),
    ("Pod alone", "spec.volumes", "only a member adds the volume of the token, and its mounts", 1),
    ("Job once", "metadata.name", "only a member makes labels from the name", 2),
    ("Job plain", "metadata.name", "only a member makes labels from the name", 3),
    ("Job once", "spec.template.metadata", "only a member adds a selector and labels", 1),
    ("Job once", "spec.template.metadata.labels", "only a member adds a selector and labels", 4),
    ("Job once", "spec", "only a member adds a selector and labels", 1),
    ("Job plain", "spec.template", "only a member adds a selector and labels", 1),
    ("Job plain", "spec", "only a member adds a selector and labels", 1),
    ("Service front", "spec.ports", "a port twice: a member fails to allocate the node port, before any rule", 2),
    ("Service front", "spec.ports.0.nodePort", "a dry run of kube-apiserver does not check the range of node ports", 4),
    ("Service balanced", "spec.ports", "a port twice: a member fails to allocate the node port, before any rule", 2),
    ("PersistentVolume disk", "*.matchExpressions.0.key", "kube-apiserver reads an empty key as a former label", 1),
    ("LimitRange limits", "metadata", "kube-apiserver invents a name", 1),
    ("LimitRange limits", "metadata.name", "kube-apiserver invents a name", 1),
    *(
        (base, "metadata.name", "names of more than 253 characters do not fit into an index", 1)
        for base in (
            *("PodDisruptionBudget budget", "PodDisruptionBudget share", "Role reader", "ClusterRole lab-reader"),
            *("RoleBinding bound", "ClusterRoleBinding lab-bound"),
        )
    ),
)

# Words of a kube-apiserver that we do not say, with their number, and why.
OTHER_WORDS: dict[str, int] = {
    # a second cause for the same field, or for the same value in the same field
    "Invalid value: must be a valid IP address": 24,
    "Invalid value": 4,
    "Invalid value: must be no more than 63 characters": 1,
    "Invalid value: must be no more than 52 characters": 1,
    "Invalid value: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with an alphanumeric character": 1,
    "Invalid value: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character": 2,
    # other words for the same cause
    "Invalid value: must be between 0 and 2147483647, inclusive": 1,
    "Invalid value: must be no more than 253 bytes": 1,
    "Invalid value: must be a standard resource type or fully qualified": 2,
    "Required value: verbs must contain at least one value": 6,
}

# What a cluster fills in, by kind: never stored here.
FILLED_IN: dict[str, tuple[str, ...]] = {
    "Service": ("spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy", "spec.ports[].nodePort"),
    "Pod": (
        *("spec.preemptionPolicy", "spec.tolerations", "spec.volumes", "spec.serviceAccount", "spec.priority"),
        *("spec.serviceAccountName", "spec.containers[].volumeMounts", "spec.initContainers[].volumeMounts"),
    ),
    "Node": ("spec.taints",),
    "Job": ("metadata.labels", "spec.selector", "spec.template.metadata.labels"),
    "Namespace": ("spec.finalizers",),
}
_JSON = json.JSONDecoder()
_AMOUNTS = frozenset(
    (
        *("limits", "requests", "capacity", "hard", "max", "min", "default", "defaultRequest", "podFixed", "value"),
        *("maxLimitRequestRatio", "averageValue", "sizeLimit", "divisor", "maximumVolumeSize"),
    )
)


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(ANSWERS.read_bytes()))
    return found


def answered(base: Base, document: Document, old: Any = None) -> Admitted | StatusError:
    kind: Kind = KINDS[base.resource.key]
    try:
        if old is not None:
            return admit_update(kind, document, old, settings=Settings(), now=NOW)
        namespace = base.document["metadata"].get("namespace", "")
        return admit_create(kind, document, namespace=namespace, settings=Settings(), now=NOW, uid="uid")
    except StatusError as error:
        return error


@cache
def pairs(name: str) -> list[tuple[Change, Admitted | StatusError, Document]]:
    """Return each change of a base with our answer and that of the kube-apiserver."""
    base = bases()[name]
    stored = answered(base, json.loads(json.dumps(base.document)))
    assert isinstance(stored, Admitted), stored
    document = orjson.loads(text_of(stored.object))
    found = []
    for change, new, edit in recorded()["answers"]:
        if change[0] == name:
            made = Change(name, tuple(change[1]), change[2])
            created, edited = requests(made, base.document, document)
            found.append((made, answered(base, created), new))
            if edit is not None and edited is not None:
                found.append((made, answered(base, edited, stored.object), edit))
    return found


def refusal(answer: Admitted | StatusError) -> tuple[int, frozenset[tuple[str, str]]]:
    if isinstance(answer, Admitted):
        return 200, frozenset()
    causes = answer.details.causes if answer.details else ()
    return answer.code, frozenset((cause.field, cause.reason) for cause in causes)


def their_refusal(answer: Document) -> tuple[int, frozenset[tuple[str, str]]]:
    code = 200 if answer["code"] == 201 else answer["code"]
    return code, frozenset((field, reason) for field, reason, _ in answer.get("causes", ()))


def is_known(change: Change) -> str:
    """Return the entry of DIFFERENCES that a change belongs to; "": none."""
    path = ".".join(map(str, change.path))
    for base, known, _, _ in DIFFERENCES:
        if change.base == base and (path == known or (known[0] == "*" and path.endswith(known[1:]))):
            return f"{base} {known}"
    return ""


@pytest.mark.parametrize("name", bases())
def test_objects_and_edits_are_refused_as_a_kube_apiserver_refuses_them(name: str) -> None:
    counts: dict[str, int] = {}
    for change, ours, theirs in pairs(name):
        if refusal(ours) != their_refusal(theirs):
            known = is_known(change)
            assert known, (change, refusal(ours), their_refusal(theirs))
            counts[known] = counts.get(known, 0) + 1

    assert counts == {f"{base} {path}": count for base, path, _, count in DIFFERENCES if base == name}


@pytest.mark.parametrize("name", bases())
def test_what_is_stored_differs_from_a_members_object_only_in_what_a_cluster_fills_in(name: str) -> None:
    filled_in = FILLED_IN.get(bases()[name].resource.kind, ())
    for change, ours, theirs in pairs(name):
        if isinstance(ours, Admitted) and "object" in theirs:
            document = orjson.loads(text_of(ours.object))
            assert plain(document, filled_in) == plain(theirs["object"], filled_in), change


@pytest.mark.parametrize("kind", ["Pod", "PersistentVolume", "PersistentVolumeClaim"])
def test_new_objects_have_the_phase_and_the_qos_class_of_a_kube_apiserver(kind: str) -> None:
    found = set()
    for name in (name for name, base in bases().items() if base.resource.kind == kind):
        for change, ours, theirs in pairs(name):
            if isinstance(ours, Admitted) and "object" in theirs:
                status = {
                    key: value for key, value in theirs["object"]["status"].items() if key in ("phase", "qosClass")
                }
                assert ours.object.status == status, change
                found.add(str(status))

    assert found


def test_at_most_one_answer_in_a_hundred_differs() -> None:
    answers = [answer for _, new, edit in recorded()["answers"] for answer in (new, edit) if answer is not None]

    assert len(answers) > 5000
    assert sum(count for _, _, _, count in DIFFERENCES) <= MOST_DIFFERENCES * len(answers)


def test_causes_have_the_words_of_a_kube_apiserver() -> None:
    same, differing = 0, Counter[str]()
    for name in bases():
        for change, ours, theirs in pairs(name):
            if is_known(change) or isinstance(ours, Admitted) or ours.details is None:
                continue
            said = {(cause.field, cause.reason, words(cause.message)) for cause in ours.details.causes}
            wanted = {(field, reason, words(message)) for field, reason, message in theirs.get("causes", ())}
            same += len(said & wanted)
            differing.update(rule.partition(" (e.g.")[0] for _, _, rule in wanted - said)

    assert differing == OTHER_WORDS
    assert same > 3900


def words(message: str) -> str:
    """Return the rule of a message: its first line without the value.

    A kube-apiserver shows some values as it holds them in memory, and we show at most 200 characters of a value.
    """
    head, _, rest = message.partition(": ")
    if head not in ("Invalid value", "Unsupported value", "Duplicate value", "Not found"):
        return message.splitlines()[0]
    if "…" in rest:
        return f"{head}{rest.rpartition('…')[2]}"
    try:
        return head + rest[_JSON.raw_decode(rest)[1] :]
    except ValueError:
        _, cut, rule = rest.partition("}: ")
        return f"{head}: {rule if cut else rest.rpartition(': ')[2]}"


def plain(document: Document, filled_in: tuple[str, ...]) -> Any:
    """Return the intent of an object: labels and everything but metadata and status, without what says nothing."""
    kept = {name: value for name, value in document.items() if name != "status"}
    kept["metadata"] = {"labels": document["metadata"].get("labels") or {}}
    return _plain(kept, "", filled_in, amount=False)


def _plain(value: Any, at: str, filled_in: tuple[str, ...], *, amount: bool) -> Any:
    """Return a value without empty values and without what a cluster fills in; amounts in a single spelling."""
    if isinstance(value, dict):
        made = {
            name: _plain(inner, f"{at}.{name}".lstrip("."), filled_in, amount=amount or name in _AMOUNTS)
            for name, inner in value.items()
            if f"{at}.{name}".lstrip(".") not in filled_in
        }
        return {name: inner for name, inner in made.items() if inner not in (None, "", 0, [], {}) or name == "emptyDir"}
    if isinstance(value, list):
        return [_plain(item, f"{at}[]", filled_in, amount=False) for item in value]
    if amount and isinstance(value, str):
        try:
            return str(parse(value))
        except QuantityError:
            return value
    return value
