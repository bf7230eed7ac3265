"""What a request attempts, and the user who sends it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ADMINISTRATORS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
SERVICE_ACCOUNT = "system:serviceaccount:"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
"""The extra value that says with which credential a user has logged in."""


class Caller(msgspec.Struct, frozen=True):
    """The user of a request as Kubernetes describes users. `uid`: an identifier that no later user of the name gets."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


class Request(msgspec.Struct, frozen=True):
    """What a request attempts: the fields by which Kubernetes' authorizers decide.

    `resource` is the plural name. It is "" for a request of a URL that is not a resource, which `path` names.
    `namespace` "" is the cluster scope, or all namespaces.
    """

    verb: str
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def qualified_resource(self) -> str:
        """Return the resource with its subresource: "pods/log"."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource
