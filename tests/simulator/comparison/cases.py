"""Requests that a simulated member has to answer as a real kube-apiserver does, generated from one object per kind."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from controlplane.wire import builtin

Document = dict[str, Any]

NAMESPACE = "compare"
JSON, MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
LIVE = "$live"  # a resourceVersion that stands for the one the object has then

BOATS: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.lab.example.io"},
    "spec": {
        "group": "lab.example.io",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "seats": {"type": "integer", "default": 4, "maximum": 99},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "crew": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}, "rank": {"type": "string"}},
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


class Step(NamedTuple):
    """One request. `path` has its query."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON


class Case(NamedTuple):
    """Requests about one object, in this order."""

    name: str
    steps: tuple[Step, ...]


def kinds() -> list[Document]:
    """Return one object of each kind."""
    return list(yaml.safe_load_all(Path(__file__).with_name("kinds.yaml").read_text()))


def kind(name: str) -> Document:
    """Return the object of one kind."""
    return copy.deepcopy(next(one for one in kinds() if one["kind"] == name))


def edited(document: Document, path: str, value: Any) -> Document:
    """Return a copy with the value at a path like spec.containers.0.env; None removes the field."""
    made = copy.deepcopy(document)
    inner: Any = made
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in way:
        if isinstance(part, str) and inner.get(part) is None:
            inner[part] = {}
        inner = inner[part]
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = copy.deepcopy(value)
    return made


def named(document: Document, name: str) -> Document:
    """Return a copy under another name."""
    return edited(document, "metadata/name", name)


def collection(document: Document, namespace: str | None = None) -> str:
    """Return the URL path of the collection an object belongs to."""
    group, _, version = document["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if document["kind"] == "Boat":
        plural, namespaced = "boats", True
    else:
        found = builtin.resource(group, version, document["kind"])
        assert found is not None, document["kind"]
        plural, namespaced = found.plural, found.namespaced
    return f"{root}/namespaces/{namespace or NAMESPACE}/{plural}" if namespaced else f"{root}/{plural}"


def create(document: Document, query: str = "", namespace: str | None = None) -> Step:
    return Step("POST", f"{collection(document, namespace)}?fieldManager=lab{query}", document)


def place(document: Document) -> str:
    return f"{collection(document)}/{document['metadata']['name']}"


def update(document: Document) -> Step:
    return Step("PUT", f"{place(document)}?fieldManager=lab", document)


def apply(document: Document, manager: str = "lifeboat", *, force: bool = True) -> Step:
    query = f"?fieldManager={manager}&force={str(force).lower()}"
    return Step("PATCH", place(document) + query, document, APPLY)


def patch(document: Document, body: Any, content_type: str = MERGE) -> Step:
    return Step("PATCH", f"{place(document)}?fieldManager=lab", body, content_type)


def read(document: Document) -> Step:
    return Step("GET", place(document))


def delete(document: Document, **options: Any) -> Step:
    body = {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
    return Step("DELETE", place(document), body)


def of_every_kind() -> Iterator[Case]:
    """Yield what holds for objects of any kind: their life, and what is refused."""
    for one in kinds():
        word = one["kind"].lower()
        yield Case(f"{word}: created", tuple(_created(named(one, "compared"))))
        yield Case(f"{word}: applied", tuple(_applied(named(one, "applied"))))
        for number, what in enumerate(REFUSALS):
            name = f"refused-{number}"
            step = dict(_refused(named(one, name))).get(what)
            if step is not None:
                yield Case(f"{word}: {what}", (step,))


def _created(one: Document) -> Iterator[Step]:
    versioned = edited(one, "metadata/resourceVersion", LIVE)
    yield create(one)
    yield create(one)
    yield read(one)
    yield update(versioned)
    yield apply(one)
    yield apply(one)
    yield patch(one, {"metadata": {"labels": {"tier": "back", "gone": None}}})
    yield patch(one, [{"op": "add", "path": "/metadata/annotations", "value": {"note": "x"}}], JSON_PATCH)
    yield patch(one, [{"op": "test", "path": "/metadata/name", "value": "x"}], JSON_PATCH)
    yield patch(one, {"metadata": {"labels": {"tier": "front"}}}, STRATEGIC)
    yield delete(one)
    yield read(one)


def _applied(one: Document) -> Iterator[Step]:
    labelled = edited(one, "metadata/labels", {"a": "1", "b": "2"})
    yield apply(labelled)
    yield apply(edited(one, "metadata/labels", {"a": "3"}), "other", force=False)
    yield apply(edited(one, "metadata/labels", {"a": "3"}))
    yield patch(one, {"metadata": {"annotations": {"theirs": "1"}}})
    yield apply(one)
    yield update(edited(one, "metadata/resourceVersion", "1"))
    yield update(edited(edited(one, "metadata/resourceVersion", LIVE), "metadata/uid", "another"))
    yield apply(edited(one, "metadata/resourceVersion", "1"))
    yield patch(one, {"metadata": {"labels": {"bad key!": "x"}}})
    yield patch(one, {"metadata": {"labels": "text"}})
    yield patch(one, {"metadata": {"finalizers": ["lab.example.io/held"]}})
    yield delete(one, preconditions={"uid": "another"})
    yield delete(one)
    yield patch(one, {"metadata": {"labels": {"late": "yes"}}})
    yield patch(one, {"metadata": {"finalizers": None}})
    yield read(one)


REFUSALS = (
    *("no name", "a name with capitals", "a long name", "another name in the URL", "a label's value", "a label's key"),
    *("a label that is a number", "an annotation's key", "a finalizer", "an owner without uid", "a version on create"),
    *("an unknown field", "an unknown field, strict", "an unknown field, applied", "a rehearsal", "metadata is text"),
    *("no manager", "its managers", "patch of nothing", "delete of nothing", "another kind", "another version"),
    *("no JSON", "an unknown patch", "another namespace", "a namespace that is missing"),
)


def _refused(one: Document) -> Iterator[tuple[str, Step]]:
    meta = one["metadata"]
    yield "no name", create(edited(one, "metadata/name", None))
    yield "a name with capitals", create(named(one, "Bad_Name"))
    yield "a long name", create(named(one, "x" * 254))
    yield "another name in the URL", Step("PUT", f"{collection(one)}/other", one)
    yield "a label's value", create(edited(one, "metadata/labels", {"a": "not good!"}))
    yield "a label's key", create(edited(one, "metadata/labels", {"a b": "x"}))
    yield "a label that is a number", create(edited(one, "metadata/labels", {"a": 1}))
    yield "an annotation's key", create(edited(one, "metadata/annotations", {"a b": "x"}))
    yield "a finalizer", create(edited(one, "metadata/finalizers", ["-bad-"]))
    yield (
        "an owner without uid",
        create(edited(one, "metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "x"}])),
    )
    yield "a version on create", create(edited(one, "metadata/resourceVersion", "5"))
    yield "an unknown field", create(edited(one, "nonsense", 1))
    yield "an unknown field, strict", create(edited(one, "nonsense", 1), "&fieldValidation=Strict")
    yield "an unknown field, applied", apply(edited(one, "nonsense", 1))
    yield "a rehearsal", create(one, "&dryRun=All")
    yield "metadata is text", create(one)._replace(body={**one, "metadata": "text"})
    yield "no manager", Step("PATCH", place(one), one, APPLY)
    yield "its managers", apply(edited(one, "metadata/managedFields", [{"manager": "x"}]))
    yield "patch of nothing", patch(one, {"metadata": {"labels": {"a": "1"}}})
    yield "delete of nothing", delete(one)
    yield "another kind", create(one)._replace(body={**one, "kind": "Other"})
    yield "another version", create(one)._replace(body={**one, "apiVersion": "lab.example.io/v9"})
    yield "no JSON", Step("POST", collection(one), "{", JSON)
    yield "an unknown patch", patch(one, {}, "application/nonsense")
    if "namespace" in meta:
        yield "another namespace", create(edited(one, "metadata/namespace", "default"))
        yield "a namespace that is missing", create(edited(one, "metadata/namespace", "missing"), namespace="missing")
