"""Credential (identity.lifeboat.io/v1alpha1): a token or browser session with which a user logs in. It is never stored.

It is read from the tables of tokens and sessions for every request, and contains no secret.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import explain
from controlplane.wire.resource import AGE, Column, Resource, age
from controlplane.wire.structs import schema_of

TOKEN, REQUESTED, HELD, SESSION = "Token", "RequestedToken", "SecretToken", "Session"
ALL: Final = "all"
"""The subresource on which a user needs the verbs get, list and delete for the credentials of other users."""


class CredentialStatus(Struct, frozen=True):
    """Whose credential it is, and when it was used."""

    type: Annotated[
        str,
        Meta(description="Token, RequestedToken or SecretToken (of a ServiceAccount), or Session (of a browser)."),
    ] = ""
    user: Annotated[str, Meta(description="Name of the user who logs in with it.")] = ""
    label: Annotated[str, Meta(description="Name of the token, or the Secret that holds it.")] = ""
    expires: Annotated[datetime | None, Meta(description="When it expires. Unset: it is valid until revoked.")] = None
    last_used: Annotated[
        datetime | None, Meta(description="When it was last used, accurate to a few minutes. Unset: never.")
    ] = None
    address: Annotated[str, Meta(description="Address from which a session was last used.")] = ""
    agent: Annotated[str, Meta(description="User-Agent with which a session was last used.")] = ""


class Credential(Object, frozen=True):
    """A token or browser session with which a user logs in. Its deletion revokes it."""

    status: CredentialStatus = CredentialStatus()


explain({Credential: "status: Whose credential it is, and when it was used."})

GROUP: Final = "identity.lifeboat.io"
"""A group of its own, so that a role about failovers says nothing about logins."""

RESOURCE = Resource(
    GROUP,
    "v1alpha1",
    "Credential",
    "credentials",
    "credential",
    False,
    columns=(
        Column("Type", cells.field("status", "type")),
        Column("User", cells.field("status", "user")),
        Column("Label", cells.field("status", "label")),
        Column("Last Used", lambda doc, now: age(doc["status"].get("lastUsed"), now) if _used(doc) else "never"),
        Column("Expires", cells.field("status", "expires")),
        AGE,
        Column("Address", cells.field("status", "address"), priority=1),
        Column("Agent", cells.field("status", "agent"), priority=1),
    ),
    verbs=("delete", "get", "list"),
)
KIND = Kind(resource=RESOURCE, type=Credential, schema=lambda: schema_of(Credential), has_generation=False)
"""Not registered, because it is never stored."""


def _used(doc: dict[str, dict[str, object]]) -> bool:
    return bool(doc["status"].get("lastUsed"))
