"""Reviews of writes by the admission policies and webhooks of users, before they are stored.

All ways in share it: it stands in the writer (`apps/objects/writer.py`). It concerns writes that a request of a person
or a program asks for [admission-subjects]. Reviews happen before the transaction of a write begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import orjson
from django.contrib.auth import get_user_model
from msgspec.structs import replace

from apps.objects import audit, cel_expressions
from apps.objects.access import caller_of
from apps.objects.admission_rules import admission_rules
from apps.objects.hook_calls import HookCalls
from apps.objects.store import DjangoStore
from apps.objects.versions import in_version
from controlplane.admission.admission_request import Write, operation_of, request_of, seen
from controlplane.admission.matching import CREATE, DELETE, UPDATE, Subject
from controlplane.admission.policies import NOT_FOUND, Binding, Failure, Policy, Verdict
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import Cause, Forbidden, Invalid, StatusError, TooLarge, qualified
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.authorization.audit_event import user_info
from controlplane.engine.decision import Delete, Put
from controlplane.engine.state import Selection
from controlplane.kind import KINDS, Kind, text_of
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template.admission_kinds import KEYS
from controlplane.settings import MemberSettings, Settings
from controlplane.wire.prune import prune
from controlplane.wire.resource import Resource
from controlplane.wire.scale import scale_of, scaled

Document = dict[str, Any]

SCALE: Final = "scale"
_ERRORS: Mapping[str, type[StatusError]] = {"Forbidden": Forbidden, "RequestEntityTooLarge": TooLarge}


class Asked(NamedTuple):
    """A write to review. `subresource`: through which the object is written.

    kind: the kind in the version that was written; None: in the stored one.
    """

    change: Put | Delete
    subresource: str = ""
    kind: Kind | None = None


class Reviews:
    """The reviews of the writes of one request. Parameters and namespaces are read once."""

    def __init__(self, store: DjangoStore, settings: MemberSettings, write: Write) -> None:
        self._store = store
        self._write = write
        self._namespaces: dict[str, Document | None] = {}
        self._params: dict[str, list[Document]] = {}
        self.calls = HookCalls(settings, write, namespace=self.namespace, convert=converted)

    def review(self, asked: Asked) -> tuple[str, ...]:
        """Return the warnings about a write. Raises the error of the policy or webhook that denies it.

        Policies are asked first, and webhooks only about a write that no policy denies.
        """
        return self.review_subject(self._subject(asked))

    def review_subject(self, subject: Subject) -> tuple[str, ...]:
        """Return the warnings about a write, as `review` does."""
        rules = admission_rules()
        if subject.operation == DELETE and rules.mutating:
            self.calls.changed(rules.mutating, subject, lambda document: subject)
        review = _Review(self, subject, self._write)
        for policy in rules.policies:
            review.ask(policy)
        trail = audit.requested()
        if trail is not None:
            trail.notes |= review.verdict.annotations
        if review.verdict.denied:
            error = denied(subject.resource, subject.name, review.verdict.denied[0])
            error.warnings = tuple(review.verdict.warnings)
            raise error
        if rules.validating:
            self.calls.check(rules.validating, subject)
        return tuple(review.verdict.warnings)

    def changed(self, kind: Kind, new: Document, old: Document | None, *, subresource: str) -> Document | None:
        """Return an object after the patches of mutating webhooks; None: they leave it as it is."""
        resource = kind.resource
        subject = self._subject_of(kind, CREATE if old is None else UPDATE, new, old, subresource)

        def fits(document: Document) -> Subject:
            return replace(subject, new=document)

        made = self.calls.changed(admission_rules().mutating, subject, fits)
        if made.new is None or same(made.new, subject.new):
            return None
        return scaled(new, dict(made.new), resource) if subresource == SCALE else dict(made.new)

    def requested(self, kind: Kind, document: Document, *, subresource: str) -> tuple[Document, tuple[str, ...]]:
        """Return the request of a subresource that stores nothing, after the patches of mutating webhooks, and the
        warnings about it. Raises the error of the policy or webhook that denies it. The document has its name."""
        subject = self._subject_of(kind, CREATE, document, None, subresource)
        rules = admission_rules()
        if rules.mutating:
            subject = self.calls.changed(rules.mutating, subject, lambda made: replace(subject, new=made))
        return dict(subject.new or {}), self.review_subject(subject)

    def namespace(self, name: str) -> Document | None:
        """Return a namespace; None: it does not exist, or the object belongs to none."""
        if name not in self._namespaces:
            ref = Ref(NAMESPACE, "", name)
            found = self._store.get([ref]).get(ref) if name else None
            self._namespaces[name] = None if found is None else document_of(found)
        return self._namespaces[name]

    def params(self, kind: Kind, reference: Mapping[str, Any], namespace: str) -> list[Document]:
        """Return the parameters that a binding names, for an object in a namespace, in the version of their kind."""
        within = (reference.get("namespace") or namespace) if kind.resource.namespaced else ""
        key = orjson.dumps(
            [kind.key, kind.resource.version, within, reference.get("name"), reference.get("selector")]
        ).decode()
        if key not in self._params:
            stored = [document_of(found) for found in self._found(kind, reference, within)]
            self._params[key] = stored if kind.is_shown_as_stored else in_version(kind, stored)
        return self._params[key]

    def _found(self, kind: Kind, reference: Mapping[str, Any], namespace: str) -> Sequence[Object]:
        if name := reference.get("name"):
            ref = kind.ref(namespace, name)
            return list(self._store.get([ref]).values())
        selection = Selection(kind.key, namespace, msgspec.convert(reference.get("selector") or {}, LabelSelector))
        return self._store.selected([selection]).get(selection, ())

    def _subject(self, asked: Asked) -> Subject:
        change, operation = asked.change, operation_of(asked.change)
        about: Any = change.old if isinstance(change, Delete) else change.new
        new = None if operation == DELETE else document_of(about)
        old = None if change.old is None else document_of(change.old)
        kind = asked.kind or KINDS[about.ref.kind]
        if not kind.is_shown_as_stored:
            new, old = (None if one is None else in_version(kind, [one])[0] for one in (new, old))
        return self._subject_of(kind, operation, new, old, asked.subresource)

    def _subject_of(
        self, kind: Kind, operation: str, new: Document | None, old: Document | None, subresource: str
    ) -> Subject:
        resource = kind.resource
        metadata = (new or old or {})["metadata"]
        name, within = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
        if subresource == SCALE:
            new, old = (None if one is None else scale_of(one, resource) for one in (new, old))
        namespace = self.namespace(within) or {}
        return Subject(
            resource=resource,
            operation=operation,
            namespace=name if resource.key == NAMESPACE else within,
            name=name,
            new=new,
            old=old,
            subresource=subresource,
            versions=other_versions(kind),
            namespace_labels=namespace.get("metadata", {}).get("labels") or {},
        )


def converted(resource: Resource, document: Document | None, version: str) -> Document | None:
    """Return a document in a version of its resource."""
    kind = KINDS.served(resource.group, version, resource.plural)
    if document is None or kind is None or not (kind.converts or kind.versions):
        return document
    return in_version(kind, [document])[0]


def other_versions(kind: Kind) -> tuple[str, ...]:
    """Return the versions in which a kind is served, besides its own."""
    home = KINDS.get(kind.key)
    if home is None or not home.versions:
        return ()
    served = (*((home,) if home.is_served else ()), *home.versions)
    others = (one.resource for one in served if one.resource.group == kind.resource.group)
    return tuple(other.version for other in others if other.version != kind.resource.version)


class _Review:
    """The review of one write by all policies."""

    def __init__(self, reviews: Reviews, subject: Subject, write: Write) -> None:
        self._reviews, self._subject, self._write = reviews, subject, write
        self.verdict = Verdict()

    @cached_property
    def _seen(self) -> Document:
        """What expressions read of the write."""
        subject = self._subject
        request = request_of(subject, self._write, version=subject.resource.version, uid=str(uuid.uuid4()))
        is_namespaced = subject.resource.namespaced
        return seen(request, self._reviews.namespace(subject.namespace) if is_namespaced else None)

    def ask(self, policy: Policy) -> None:
        """Ask a policy that concerns the write, once for each of its bindings that does."""
        if policy.match.version(self._subject) is None:
            return
        kind = None
        if policy.param_kind is not None:
            api_version, name = policy.param_kind
            kind = KINDS.of_version(api_version, name)
            if kind is None:
                named = f"'{api_version}, Kind={name}'"
                why = f"failed to find resource referenced by paramKind: {named}"
                self.verdict.misconfigured(policy, None, why)
                return
        for binding in policy.bindings:
            if binding.match is None or binding.match.version(self._subject) is not None:
                self._ask_bound(policy, binding, kind)

    def _ask_bound(self, policy: Policy, binding: Binding, kind: Kind | None) -> None:
        params: list[Document | None] = [None]
        if kind is not None and binding.param_ref is not None:
            params = list(self._reviews.params(kind, binding.param_ref, self._subject.namespace))
            if not params and binding.param_ref.get("parameterNotFoundAction") == "Deny":
                self.verdict.misconfigured(policy, binding, NOT_FOUND)
        if params:
            for answer in cel_expressions.checked(policy.digest, policy.spec, self._seen, params):
                self.verdict.answered(policy, binding, answer)


class Mutation:
    """What mutating webhooks make of the objects of one writer, with their warnings."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._reviews.calls.warnings)

    def changed(self, kind: Kind, new: Document, old: Document | None, *, subresource: str = "") -> Document | None:
        """Return an object after the patches of webhooks, without unknown fields; None: it stays as it is."""
        try:
            made = self._reviews.changed(kind, new, old, subresource=subresource)
        except StatusError as error:
            error.warnings = self.warnings
            raise
        return None if made is None else prune(made, kind.schema())


def mutation(store: DjangoStore, settings: Settings, *, author: str, dry_run: bool) -> Mutation | None:
    """Return what calls the mutating webhooks of users; None: there are none, or no request asks for the write."""
    found = _reviews(store, settings, author=author, dry_run=dry_run)
    return Mutation(found) if found is not None and admission_rules().mutating else None


def review(store: DjangoStore, asked: Sequence[Asked], settings: Settings, *, author: str, dry_run: bool) -> list[str]:
    """Return the warnings of policies and webhooks about writes. Raises the error of the first that denies a write.

    Writes without a request, for example of controllers and of commands on the server, are not reviewed.
    """
    reviews = _reviews(store, settings, author=author, dry_run=dry_run)
    if reviews is None:
        return []
    try:
        found = [warning for one in asked for warning in reviews.review(one)]
    except StatusError as error:
        error.warnings = (*error.warnings, *reviews.calls.warnings)
        raise
    return [*found, *reviews.calls.warnings]


def review_request(
    store: DjangoStore,
    kind: Kind,
    document: Document,
    settings: Settings,
    *,
    subresource: str,
    author: str,
    dry_run: bool,
) -> tuple[Document, list[str]]:
    """Return the body of a request that stores nothing, as mutating webhooks leave it, and warnings about it.

    It is a creation of a subresource, for example of the token of a ServiceAccount; `kind`: that of the ServiceAccount.
    Raises the error of the first policy or webhook that denies it.
    """
    reviews = _reviews(store, settings, author=author, dry_run=dry_run)
    if reviews is None:
        return document, []
    try:
        made, warnings = reviews.requested(kind, document, subresource=subresource)
    except StatusError as error:
        error.warnings = (*error.warnings, *reviews.calls.warnings)
        raise
    return made, [*warnings, *reviews.calls.warnings]


def _reviews(store: DjangoStore, settings: Settings, *, author: str, dry_run: bool) -> Reviews | None:
    trail = audit.requested()
    if trail is None or not author:
        return None
    rules = admission_rules()
    if not trail.knows_rules:
        rules.refresh()
        trail.knows_rules = True
    if rules.is_empty:
        return None
    return Reviews(store, settings.members, Write(user_info(caller_named(author, trail)), dry_run))


def caller_named(author: str, trail: audit.Trail) -> Any:
    """Return the user as whom a request is decided. A page has not noted its user, who is found by name."""
    known = trail.impersonated or trail.caller
    if known is not None:
        return known
    return caller_of(get_user_model().objects.get_by_natural_key(author))


def refresh_after(kinds: Sequence[str]) -> None:
    """Bring the rules up to date if one of them was written, so that the next request of its author meets it."""
    if any(kind in KEYS for kind in kinds):
        admission_rules().refresh(at_once=True)


def denied(resource: Resource, name: str, failure: Failure) -> StatusError:
    """Return the error for a write that a policy denies, as a kube-apiserver words it."""
    message = f'{qualified(resource.plural, resource.group)} "{name}" is forbidden: {failure.denial}'
    error = _ERRORS.get(failure.reason, Invalid)
    causes = [Cause(message=failure.denial)]
    return error(message, kind=resource.plural, group=resource.group, name=name, causes=causes)


def document_of(obj: Object) -> Document:
    """Return an object as a plain document."""
    document: Document = orjson.loads(text_of(obj))
    return document
