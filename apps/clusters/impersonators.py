"""Impersonators of members: the ServiceAccount in a member with which requests of users are sent [proxy-rights].

Joining creates it with the member's administrator, as `karmadactl join` does. The controller `impersonators` keeps its
rights up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from apps.clusters.applying import APPLY
from apps.clusters.client import MemberClient
from apps.clusters.joining import Member
from controlplane.apimachinery.base64 import decoded
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, IMPERSONATOR
from controlplane.clusters.questions import FIELD_MANAGER, Answer, Target
from controlplane.settings import MemberSettings

TOKEN_SECONDS = 20.0  # a member fills in the Secret of a token within this time
AT_ONCE = 20  # members that are called at the same time
_TOKEN_TYPE = "kubernetes.io/service-account-token"
_PARAMS = {"fieldManager": FIELD_MANAGER, "force": "true"}
_ACCOUNTS = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/serviceaccounts"
_SECRETS = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/secrets"


class NoImpersonator(Exception):
    """A member has no impersonator with a token. The message says why."""


def with_impersonators(members: Sequence[Member], settings: MemberSettings) -> tuple[list[Member], dict[str, str]]:
    """Return the members with the tokens of their impersonators, and the reason for each member without one.

    The impersonators are created in the members. Members without one are joined all the same: only the proxy to them is
    refused.
    """
    return asyncio.run(_with_impersonators(members, settings))


async def _with_impersonators(
    members: Sequence[Member], settings: MemberSettings
) -> tuple[list[Member], dict[str, str]]:
    client, turns = MemberClient(settings), asyncio.Semaphore(AT_ONCE)
    problems: dict[str, str] = {}

    async def prepared(member: Member) -> Member:
        try:
            async with turns:
                return replace(member, impersonator=await _token(client, member))
        except NoImpersonator as error:
            problems[member.name] = str(error)
            return member

    try:
        return [*await asyncio.gather(*map(prepared, members))], problems
    finally:
        await client.close()


async def _token(client: MemberClient, member: Member) -> str:
    """Create the impersonator of a member and return its token. Raises NoImpersonator."""
    target = Target(member.name, member.url, member.token, member.authority, member.insecure)
    place = {"name": IMPERSONATOR, "namespace": CLUSTER_NAMESPACE}
    secret = {"metadata": {**place, "annotations": {"kubernetes.io/service-account.name": IMPERSONATOR}}}
    for path, document in (
        (f"/api/v1/namespaces/{CLUSTER_NAMESPACE}", {"kind": "Namespace", "metadata": {"name": CLUSTER_NAMESPACE}}),
        (f"{_ACCOUNTS}/{IMPERSONATOR}", {"kind": "ServiceAccount", "metadata": place}),
        (f"{_SECRETS}/{IMPERSONATOR}", {"kind": "Secret", "type": _TOKEN_TYPE, **secret}),
    ):
        body = {"apiVersion": "v1", **document}
        _check(await client.call(target, "PATCH", path, params=_PARAMS, body=body, content_type=APPLY))
    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            while not (token := _token_in(await client.call(target, "GET", f"{_SECRETS}/{IMPERSONATOR}"))):
                await asyncio.sleep(0.2)
            return token
    except TimeoutError:
        raise NoImpersonator(
            f"it has not filled in the token of Secret {CLUSTER_NAMESPACE}/{IMPERSONATOR} within {TOKEN_SECONDS:g} s"
        ) from None


def _check(answer: Answer) -> Any:
    if not answer.ok:
        raise NoImpersonator(answer.problem)
    return answer.body


def _token_in(answer: Answer) -> str:
    body = _check(answer)
    try:
        return decoded((body.get("data") or {}).get("token", "")).decode()
    except (AttributeError, TypeError, ValueError):
        raise NoImpersonator(f"Secret {CLUSTER_NAMESPACE}/{IMPERSONATOR} cannot be read") from None
