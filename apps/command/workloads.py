"""Which binding belongs to what a user names: deployment/web, clusterrole/reader, or the binding itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from apps.command import exit_codes, paths
from apps.command.api import Api
from apps.command.errors import CommandError, Refused
from apps.command.run import Run
from controlplane.apimachinery.names import binding_name

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ServedKind(NamedTuple):
    """A kind that the API serves, and the names by which users name it."""

    kind: str
    namespaced: bool
    names: frozenset[str]


class Subject(NamedTuple):
    """A binding that exists. `namespace` "": a ClusterResourceBinding."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        return paths.binding(self.namespace, self.name)

    @property
    def qualified(self) -> str:
        return f"{self.namespace}/{self.name}".lstrip("/")


def subject(run: Run, named: str) -> Subject:
    """Return the binding of TYPE/NAME, or the binding of that name. Raises CommandError if there is none."""
    type_, slash, name = named.partition("/")
    if not slash:
        return _existing(run, Subject(run.namespace, named), Subject("", named), named=named)
    found = next((one for one in _served(run.api) if type_.lower() in one.names), None)
    if found is None:
        raise CommandError(
            f'the API serves no kind "{type_}"',
            code=exit_codes.NOT_FOUND,
            advice="kubectl api-resources lists the kinds; name a workload as deployment/web",
        )
    bound = binding_name(found.kind, name)
    return _existing(run, Subject(run.namespace if found.namespaced else "", bound), named=named)


def _existing(run: Run, *candidates: Subject, named: str) -> Subject:
    for candidate in candidates:
        try:
            run.api.get(candidate.path)
        except Refused as error:
            is_guess = candidate is not candidates[0]  # a user of one namespace may not read cluster-scoped bindings
            if error.http != 404 and not (is_guess and error.http == 403):
                raise
        else:
            return candidate
    raise CommandError(
        f"{named} has no binding in namespace {run.namespace}: it does not exist there, or no policy claims it",
        code=exit_codes.NOT_FOUND,
        advice="kubectl get resourcebindings -A lists all; name the namespace with -n",
    )


def _served(api: Api) -> Iterator[ServedKind]:
    """Yield the kinds of aggregated discovery, first those of the core group."""
    for root in ("/api", "/apis"):
        for group in api.get(root, accept=_DISCOVERY)["items"]:
            for version in group["versions"]:
                for one in version["resources"]:
                    kind = one["responseKind"]["kind"]
                    names = {
                        one["resource"],
                        one.get("singularResource") or "",
                        kind.lower(),
                        *one.get("shortNames", ()),
                    }
                    qualified = {f"{name}.{group['metadata'].get('name', '')}" for name in names}
                    yield ServedKind(kind, one["scope"] == "Namespaced", frozenset(names | qualified))
