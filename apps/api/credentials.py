"""Credentials: the tokens and sessions with which users log in. Each user sees and revokes the user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from django.contrib.sessions.models import Session
from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.answer import Answer, ListAnswer, ObjectAnswer
from apps.api.authorization import Attributes, authorize
from apps.api.last_use import LAST_USES
from apps.api.models import LoginSession, ServiceAccountToken, Token
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import dry_run, listing_of
from apps.api.views import KubernetesView, refuse_watch
from apps.objects.store import store
from apps.resources.models import IssuedToken
from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.errors import MethodNotAllowed, NotFound
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.authorization.attributes import SERVICE_ACCOUNT
from controlplane.kinds.credential import (
    ALL,
    HELD,
    REQUESTED,
    RESOURCE,
    SESSION,
    TOKEN,
    Credential,
    CredentialStatus,
)
from controlplane.wire.status import success


class CredentialsView(KubernetesView):
    """Serves GET and DELETE of credentials. A deletion revokes: streams end within a second."""

    http_method_names = ["get", "head", "delete", "options"]
    renderer_classes = pages.OBJECTS

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope(name=self.kwargs.get("name") or ""))

    def get(self, request: Request, name: str | None = None) -> Response:
        refuse_watch(request, RESOURCE)
        if name is not None:
            return Response(ObjectAnswer(RESOURCE, _text(self._named(request, name, verb="get"))))
        choice = listing_of(request.query_params, RESOURCE, namespace="").choice
        found = _visible(request.user, verb="list")
        taken = [one for one in found if choice.is_everything or choice.takes(_document(one))]
        meta = {"resourceVersion": str(store().current_version())}
        return Response(ListAnswer(RESOURCE, [_text(one) for one in taken], meta))

    def delete(self, request: Request, name: str | None = None) -> Response:
        if name is None:
            raise MethodNotAllowed("credentials are revoked by their names: kubectl delete credential NAME")
        credential = self._named(request, name, verb="delete")
        if credential.status.type == HELD:
            namespace, _, secret = credential.status.label.partition("/")
            raise MethodNotAllowed(
                f"the token is in a Secret, with which it ends: kubectl delete secret {secret} -n {namespace}"
            )
        if not dry_run(request.query_params, {}):
            _revoke(credential)
        status = success(kind=RESOURCE.plural, name=name, group=RESOURCE.group, uid=credential.metadata.uid)
        return Response(Answer(status))

    def _named(self, request: Request, name: str, *, verb: str) -> Credential:
        """Return a credential that the user may see. Raises NotFound for all others."""
        for credential in _visible(request.user, verb=verb):
            if credential.metadata.name == name:
                return credential
        raise NotFound.of(RESOURCE.plural, name, group=RESOURCE.group)


def _visible(user: Any, *, verb: str) -> list[Credential]:
    """Return the credentials that a user may see: the user's own, or all with the verb on the subresource `all`."""
    LAST_USES.flush()
    everything = authorize(Attributes(user, verb, RESOURCE.group, RESOURCE.plural, ALL)).allowed
    owner = "" if everything else user.get_username()
    found = [*_tokens(owner), *_sessions(owner), *_requested(owner), *_held(owner)]
    return sorted(found, key=lambda one: (one.status.user, one.metadata.name))


def _tokens(owner: str) -> Iterator[Credential]:
    rows = Token.objects.select_related("user").order_by("pk")
    for row in rows.filter(user__username=owner) if owner else rows:
        status = CredentialStatus(TOKEN, row.user.get_username(), row.name, row.expires, row.last_used)
        yield _credential(f"token-{row.pk}", row.created, status)


def _sessions(owner: str) -> Iterator[Credential]:
    rows = LoginSession.objects.select_related("user").order_by("pk")
    rows = rows.filter(user__username=owner) if owner else rows
    keys = [row.session_key for row in rows]
    ends = dict(Session.objects.filter(pk__in=keys).values_list("session_key", "expire_date"))
    for row in rows:
        if row.session_key in ends:
            status = CredentialStatus(
                SESSION, row.user.get_username(), "", ends[row.session_key], row.last_used, row.address, row.agent
            )
            yield _credential(_session_name(row.session_key), row.created, status)


def _requested(owner: str) -> Iterator[Credential]:
    rows = ServiceAccountToken.objects.order_by("pk")
    namespace, name = _account(owner)
    for row in rows.filter(namespace=namespace, name=name) if owner else rows:
        user = f"{SERVICE_ACCOUNT}{row.namespace}:{row.name}"
        label = f"{row.bound_kind} {row.bound_name}".strip()
        status = CredentialStatus(REQUESTED, user, label, row.expires, row.last_used)
        yield _credential(f"requested-{row.pk}", row.created, status)


def _held(owner: str) -> Iterator[Credential]:
    rows = IssuedToken.objects.order_by("pk")
    namespace, name = _account(owner)
    for row in rows.filter(namespace=namespace, account=name) if owner else rows:
        fields = vars(row)  # the columns are those of the type of the row
        user = f"{SERVICE_ACCOUNT}{fields['namespace']}:{fields['account']}"
        label = f"{fields['namespace']}/{fields['secret']}"
        status = CredentialStatus(HELD, user, label, None, fields["last_used"])
        yield _credential(f"secret-{fields['key'][:16]}", None, status)


def _account(user: str) -> tuple[str, str]:
    """Return namespace and name of the ServiceAccount that a user is. ("", ""): another user, whatever the name is."""
    if not user.startswith(SERVICE_ACCOUNT):
        return "", ""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    return namespace, name


def _revoke(credential: Credential) -> None:
    """Delete the row of a credential, so that it is no login any more."""
    kind, _, key = credential.metadata.name.partition("-")
    if kind == "token":
        Token.objects.filter(pk=key).delete()
    elif kind == "requested":
        ServiceAccountToken.objects.filter(pk=key).delete()
    else:
        rows = LoginSession.objects.filter(user__username=credential.status.user)
        keys = [row.session_key for row in rows if _session_name(row.session_key) == credential.metadata.name]
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_session WHERE session_key = ANY(%s)", [keys])
        LoginSession.objects.filter(session_key__in=keys).delete()


def _session_name(key: str) -> str:
    """Return the name of a session, from which its key cannot be found out."""
    return f"session-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _credential(name: str, created: datetime | None, status: CredentialStatus) -> Credential:
    metadata = ObjectMeta(name=name, uid=name, creation_timestamp=created)
    return Credential(RESOURCE.api_version, RESOURCE.kind, metadata, status=status)


def _text(credential: Credential) -> bytes:
    return msgspec.json.encode(credential, enc_hook=plain)


def _document(credential: Credential) -> Any:
    return msgspec.json.decode(_text(credential))
