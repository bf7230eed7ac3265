"""ResourceInterpreterWebhookConfiguration (config.karmada.io/v1alpha1): webhooks that say what the fields of kinds
mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.causes import duplicate, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Int32, Object, UserStruct
from controlplane.kind import Kind
from controlplane.kinds.field_texts import explain
from controlplane.kinds.interpreter_customization import OPERATIONS
from controlplane.settings import Settings
from controlplane.wire.client_config import ONE_ADDRESS, bundle_causes, url_causes
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

INTERPRETER_WEBHOOKS = "config.karmada.io/ResourceInterpreterWebhookConfiguration"
ALL = "*"
CONTEXT_VERSION = "v1alpha1"
DEFAULT_TIMEOUT_SECONDS = 10
_SUPPORTED = (ALL, *sorted(OPERATIONS))
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


class WebhookRule(UserStruct, frozen=True):
    """The operations and kinds that a webhook interprets. `*` means all."""

    operations: Annotated[tuple[str, ...], Meta(description="Operations of interpreters; * for all.")] = ()
    api_groups: Annotated[
        tuple[str, ...], Meta(description="API groups; * for all, empty text for the core group.")
    ] = ()
    api_versions: Annotated[tuple[str, ...], Meta(description="API versions; * for all.")] = ()
    kinds: Annotated[tuple[str, ...], Meta(description="Kinds; * for all.")] = ()

    def covers(self, group: str, version: str, kind: str, operation: str) -> bool:
        """Test whether an operation of a kind is among those of the rule."""
        pairs = (
            (self.operations, operation),
            (self.api_groups, group),
            (self.api_versions, version),
            (self.kinds, kind),
        )
        return all(ALL in listed or value in listed for listed, value in pairs)


class ServiceReference(UserStruct, frozen=True):
    namespace: Annotated[str, Meta(description="Namespace of the Service.")] = ""
    name: Annotated[str, Meta(description="Name of the Service.")] = ""
    path: Annotated[str | None, Meta(description="Path of the URL.")] = None
    port: Annotated[Int32 | None, Meta(description="Port of the Service.")] = None


class ClientConfig(UserStruct, frozen=True):
    """Where a webhook is called, and which authority signed its certificate."""

    url: Annotated[str | None, Meta(description="https URL of the webhook.")] = None
    service: Annotated[ServiceReference | None, Meta(description="Service of the webhook. Not supported: use url.")] = (
        None
    )
    ca_bundle: Annotated[
        str | None, Meta(description="Certificates, PEM in base64, that the webhook's certificate is checked against.")
    ] = None


class Webhook(UserStruct, frozen=True):
    """A webhook, with the operations and kinds that it interprets."""

    name: Annotated[str, Meta(description="Full name of the webhook, for example workloads.example.com.")] = ""
    client_config: Annotated[ClientConfig, Meta(description="Where the webhook is called.")] = ClientConfig()
    rules: Annotated[tuple[WebhookRule, ...], Meta(description="Operations and kinds of the webhook.")] = ()
    timeout_seconds: Annotated[Int32 | None, Meta(description="Seconds to wait for an answer, 1 to 30. Unset: 10.")] = (
        None
    )
    interpreter_context_versions: Annotated[
        tuple[str, ...], Meta(description="Versions of ResourceInterpreterContext that the webhook accepts: v1alpha1.")
    ] = ()

    def covers(self, api_version: str, kind: str, operation: str) -> bool:
        """Test whether the webhook interprets an operation of a kind."""
        group, _, version = api_version.rpartition("/")
        return any(rule.covers(group, version, kind, operation) for rule in self.rules)

    def offers(self, operation: str) -> bool:
        """Test whether the webhook interprets an operation of any kind."""
        return any(ALL in rule.operations or operation in rule.operations for rule in self.rules)


class InterpreterWebhooks(Object, frozen=True):
    """Webhooks that say what the fields of kinds mean."""

    webhooks: tuple[Webhook, ...] = ()


def validate(new: InterpreterWebhooks, old: InterpreterWebhooks | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a configuration."""
    causes: list[Cause] = []
    names: set[str] = set()
    for index, webhook in enumerate(new.webhooks):
        path = f"webhooks[{index}]"
        causes += _webhook(webhook, path)
        if webhook.name in names:
            causes.append(duplicate(f"{path}.name", webhook.name))
        names.add(webhook.name)
    return causes


def _webhook(webhook: Webhook, path: str) -> Iterator[Cause]:
    if not webhook.name:
        yield required(f"{path}.name", "write a full name such as workloads.example.com")
    elif webhook.name.count(".") < 2 or not _NAME.fullmatch(webhook.name):
        yield invalid(f"{path}.name", webhook.name, "must have three segments or more, such as workloads.example.com")
    for index, rule in enumerate(webhook.rules):
        yield from _rule(rule, f"{path}.rules[{index}]")
    seconds = webhook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= 30:
        yield invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    yield from _client(webhook.client_config, f"{path}.clientConfig")
    versions = webhook.interpreter_context_versions
    field = f"{path}.interpreterContextVersions"
    if not versions:
        yield required(field, f"must specify one of {CONTEXT_VERSION}")
    elif CONTEXT_VERSION not in versions:
        yield invalid(field, list(versions), f"must include at least one of {CONTEXT_VERSION}")
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{field}[{index}]", version, "duplicate version")


def _rule(rule: WebhookRule, path: str) -> Iterator[Cause]:
    for field, values in (
        ("operations", rule.operations),
        ("apiGroups", rule.api_groups),
        ("apiVersions", rule.api_versions),
        ("kinds", rule.kinds),
    ):
        if not values:
            yield required(f"{path}.{field}", "name at least one, or * for all")
        elif len(values) > 1 and ALL in values:
            yield invalid(f"{path}.{field}", list(values), "if '*' is present, must not specify other values")
    for index, operation in enumerate(rule.operations):
        if operation not in _SUPPORTED:
            yield unsupported(f"{path}.operations[{index}]", operation, _SUPPORTED)


def _client(config: ClientConfig, path: str) -> Iterator[Cause]:
    if (config.url is None) == (config.service is None):
        yield required(path, ONE_ADDRESS)
    elif config.service is not None:
        rule = "this control plane has no Services of its own network: write the address of the webhook as url"
        yield invalid(f"{path}.service", config.service.name, rule)
    elif config.url is not None:
        yield from url_causes(config.url, f"{path}.url")
    yield from bundle_causes(config.ca_bundle, f"{path}.caBundle")


def _names(doc: dict[str, Any], now: Any) -> str:
    return ", ".join(str(webhook.get("name")) for webhook in doc.get("webhooks") or ())


explain({InterpreterWebhooks: "webhooks: Webhooks, each with the operations and kinds it interprets."})

DECLARED = (
    Kind(
        resource=Resource(
            "config.karmada.io",
            "v1alpha1",
            "ResourceInterpreterWebhookConfiguration",
            "resourceinterpreterwebhookconfigurations",
            "resourceinterpreterwebhookconfiguration",
            False,
            categories=("karmada-io",),
            columns=(Column("Webhooks", _names),),
        ),
        type=InterpreterWebhooks,
        schema=lambda: schema_of(InterpreterWebhooks),
        validate=validate,
        has_status=False,
    ),
)
