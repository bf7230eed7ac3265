"""Sources of an import: another control plane with Karmada's API, or files with its objects as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from apps.command import exit_codes, manifests
from apps.command.api import Api
from apps.command.errors import CommandError, Document, Refused
from apps.command.paths import named
from apps.command.shapes import Field, check

Identity = tuple[str, str, str, str]  # apiVersion, kind, namespace, name


class Source(Protocol):
    """Where objects are imported from."""

    name: str

    def listed(self, api_version: str, kind: str) -> Sequence[Document]:
        """Return all objects of a kind. A kind that the source does not have has none."""

    def read(self, identity: Identity) -> Document | None:
        """Return one object. None: the source does not have it."""


class Discovery:
    """Finds the addresses of kinds by the discovery of an API."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}  # by apiVersion: plural and scope of each kind

    def path(self, api_version: str, kind: str, namespace: str = "", name: str = "") -> str | None:
        """Return the address of an object, or of all objects of a kind. None: the API does not serve the kind."""
        found = self._kinds(api_version).get(kind)
        if found is None:
            return None
        plural, namespaced = found
        within = f"/namespaces/{named(namespace)}" if namespaced and namespace else ""
        return f"{_root(api_version)}{within}/{plural}" + (f"/{named(name)}" if name else "")

    def _kinds(self, api_version: str) -> dict[str, tuple[str, bool]]:
        if api_version not in self._resources:
            try:
                found = self._api.get(_root(api_version))
            except Refused as error:
                if error.http != 404:
                    raise
                found = {}
            self._resources[api_version] = {
                one["kind"]: (one["name"], bool(one.get("namespaced")))
                for one in found.get("resources") or ()
                if "/" not in one["name"]
            }
        return self._resources[api_version]

    def forget(self) -> None:
        """Read the discovery again at the next question: definitions have been added."""
        self._resources.clear()


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class ControlPlane:
    """A running control plane."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served = Discovery(api)
        self.name = api.server

    def listed(self, api_version: str, kind: str) -> Sequence[Document]:
        path = self._served.path(api_version, kind)
        if path is None:
            return []
        items = self._api.items(path).get("items") or []
        return [checked({**item, "apiVersion": api_version, "kind": kind}, self.name) for item in items]

    def read(self, identity: Identity) -> Document | None:
        path = self._served.path(*identity)
        if path is None:
            return None
        try:
            return checked(self._api.get(path), self.name)
        except Refused as error:
            if error.http != 404:
                raise
            return None


class Files:
    """YAML and JSON files, or folders with such files, as `kubectl get -o yaml` writes them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        files = sorted(file for path in paths for file in _files_of(path))
        self.name = f"{len(files)} files"
        self._objects = {_identity(one): one for file in files for one in _documents(file)}

    def listed(self, api_version: str, kind: str) -> Sequence[Document]:
        return [one for identity, one in self._objects.items() if identity[:2] == (api_version, kind)]

    def read(self, identity: Identity) -> Document | None:
        return self._objects.get(identity)


_SUFFIXES: Final = (".yaml", ".yml", ".json")


def _files_of(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (one for one in path.rglob("*") if one.suffix in _SUFFIXES)
    elif path.is_file():
        yield path
    else:
        raise CommandError(f"there is no file {path}", code=exit_codes.NOT_FOUND)


def _documents(file: Path) -> Iterator[Document]:
    for number, document in enumerate(manifests.documents(file), start=1):
        place = f"{file}, document {number}"
        check(document, _LIST, place=place)
        if "items" not in document:
            yield checked(document, place)
            continue
        for index, one in enumerate(document["items"] or ()):
            yield checked(one, f"{place}, items[{index}]")


_LIST: Final = (Field("items", list),)
_HEAD: Final = (
    *(Field("apiVersion", str, True), Field("kind", str, True), Field("metadata", dict, True)),
    *(Field("metadata.name", str, True), Field("metadata.namespace", str)),
    *(Field("metadata.labels", dict), Field("metadata.annotations", dict), Field("metadata.finalizers", list)),
)
_BINDING: Final = (
    *(Field("spec", dict, True), Field("spec.resource", dict, True), Field("spec.resource.apiVersion", str, True)),
    *(Field("spec.resource.kind", str, True), Field("spec.resource.name", str, True)),
    *(Field("spec.resource.namespace", str), Field("spec.clusters", list), Field("spec.clusters[]", dict)),
    *(Field("spec.clusters[].name", str, True), Field("spec.clusters[].replicas", int)),
)
_READ: Final = {
    ("cluster.karmada.io/v1alpha1", "Cluster"): (
        Field("spec", dict, True),
        *(
            Field(f"spec.{ref}{path}", type_, bool(path))
            for ref in ("secretRef", "impersonatorSecretRef")
            for path, type_ in (("", dict), (".namespace", str), (".name", str))
        ),
    ),
    ("work.karmada.io/v1alpha2", "ResourceBinding"): _BINDING,
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding"): _BINDING,
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): (
        Field("spec", dict, True),
        Field("spec.group", str, True),
    ),
    ("batch/v1", "Job"): (
        *(Field("spec", dict), Field("spec.template", dict), Field("spec.template.metadata", dict)),
        Field("spec.template.metadata.labels", dict),
    ),
}


def checked(document: Any, place: str) -> Document:
    """Return an object that has the fields which an import reads. Raises CommandError that names the field."""
    check(document, _HEAD, place=place)
    found: Document = document
    fields = _READ.get((found["apiVersion"], found["kind"]), ())
    check(found, fields, place=f"{place}, {found['kind']} {found['metadata']['name']}")
    return found


def _identity(document: Document) -> Identity:
    metadata = document["metadata"]
    return document.get("apiVersion", ""), document["kind"], metadata.get("namespace", ""), metadata["name"]
