"""Sources of an import: another control plane with Karmada's API, or files with its objects as YAML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import yaml

from apps.command import exit_codes
from apps.command.api import Api
from apps.command.errors import CommandError, Document, Refused, usage

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
        within = f"/namespaces/{quote(namespace, safe='')}" if namespaced and namespace else ""
        return f"{_root(api_version)}{within}/{plural}" + (f"/{quote(name, safe='')}" if name else "")

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
        return [{**item, "apiVersion": api_version, "kind": kind} for item in items]

    def read(self, identity: Identity) -> Document | None:
        path = self._served.path(*identity)
        if path is None:
            return None
        try:
            return self._api.get(path)
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
    try:
        documents: list[Any] = list(yaml.load_all(file.read_text(), Loader=_Loader))
        json.dumps(documents)  # as they will be sent: without loops and binary values
    except yaml.MarkedYAMLError as error:  # its text quotes the line of the error, which may be one of a Secret
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise usage(f"{file} is not valid YAML: {error.problem}{where}") from None
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise usage(f"{file} cannot be read: {type(error).__name__} {error}") from None
    for document in filter(None, documents):
        listed = document.get("items") if isinstance(document, dict) else None
        for one in listed if isinstance(listed, list) else [document]:
            if not _is_object(one):
                raise usage(f"{file} has a document that is no object of Kubernetes")
            yield one


def _is_object(document: Any) -> bool:
    """Test whether a document has what identifies an object, and its other metadata have their types."""
    if not isinstance(document, dict) or not isinstance(metadata := document.get("metadata"), dict):
        return False
    names = document.get("apiVersion"), document.get("kind"), metadata.get("name")
    maps = metadata.get("labels"), metadata.get("annotations")
    return (
        all(isinstance(name, str) and name for name in names)
        and isinstance(metadata.get("namespace", ""), str)
        and all(isinstance(one, dict | None) for one in maps)
    )


class _Loader(yaml.SafeLoader):
    """Reads times as texts, as JSON has them."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _identity(document: Document) -> Identity:
    metadata = document["metadata"]
    return document.get("apiVersion", ""), document["kind"], metadata.get("namespace", ""), metadata["name"]
