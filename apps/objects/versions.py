"""Objects of kinds with several versions: stored in one of them, read and written in each that is served
[definition-versions, built-in-versions]. Objects that a changed definition finds stored are shown as it says.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from apps.objects.configuration import configuration
from apps.objects.defined_texts import DEFINED
from apps.objects.webhook_client import FAILURES, WebhookClient
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Object
from controlplane.kind import KINDS, Kind, decode, text_of
from controlplane.propagation.definitions import as_defined
from controlplane.settings import MemberSettings
from controlplane.wire.conversion import ConversionFailed, converted, renamed, review_of
from controlplane.wire.field_versions import Version, Versions, with_metadata
from controlplane.wire.prune import prune
from controlplane.wire.request import Choice

Document = dict[str, Any]

SECONDS: Final = 30.0  # for one request to a conversion webhook
_AT_ONCE: Final = 500  # objects in one request


def in_version(kind: Kind, documents: Sequence[Document]) -> list[Document]:
    """Return objects in the version of a kind, and as its definition shows them now.

    Raises StatusError if the conversion webhook does not convert them.
    """
    api_version = kind.resource.api_version
    made = _as_defined(kind, documents)
    waiting = [index for index, document in enumerate(made) if document.get("apiVersion") != api_version]
    if not waiting:
        return made
    home = KINDS[kind.key]
    if home.convert is not None:
        for index in waiting:
            made[index] = home.convert(made[index], api_version)
        return made
    conversion = home.conversion
    if conversion is None:
        for index in waiting:
            made[index] = renamed(made[index], api_version, kind.schema())
        return made
    by_version: dict[str, list[int]] = {}
    for index in waiting:
        by_version.setdefault(str(made[index].get("apiVersion")), []).append(index)
    for version, places in by_version.items():
        for start in range(0, len(places), _AT_ONCE):
            part = places[start : start + _AT_ONCE]
            asked = _asked(kind, conversion, [made[index] for index in part], version)
            for index, document in zip(part, asked, strict=True):
                made[index] = prune(document, kind.schema())
    return made


def _as_defined(kind: Kind, documents: Sequence[Document]) -> list[Document]:
    """Return stored objects as the definition of their kind shows them now: a write before its last change did not.

    As with a kube-apiserver, the version in which an object is stored decides, before the object is converted.
    """
    if not kind.is_edited:
        return list(documents)
    known = _by_version(kind)
    found = (known.get(str(document.get("apiVersion"))) for document in documents)
    return [
        document if one is None else as_defined(one, document) for one, document in zip(found, documents, strict=True)
    ]


def _by_version(kind: Kind) -> dict[str, Kind]:
    """Return the kind in each of its versions, by the apiVersion, as it is defined now."""
    home = KINDS.get(kind.key) or kind
    return {one.resource.api_version: one for one in (*home.versions, home)}


def selects_converted(kind: Kind, choice: Choice) -> bool:
    """Test whether a selector compares fields that only the conversion webhook or a changed definition of a kind makes.

    Its objects are converted before they are selected. Other conversions keep the names of fields that can be selected,
    or the selector has the stored ones (`Resource.stored_fields`).
    """
    if kind.is_shown_as_stored or not choice.selects_content:
        return False
    home = KINDS.get(kind.key)
    return kind.is_edited or (home is not None and home.conversion is not None)


def texts_in_version(kind: Kind, texts: Sequence[bytes]) -> Sequence[bytes]:
    """Return encoded objects in the version of a kind. Kinds with one version and an unchanged definition cost nothing,
    and an object that a changed definition does not change is decoded once in a process."""
    if kind.is_shown_as_stored:
        return texts
    head = b'{"apiVersion":"%b"' % kind.resource.api_version.encode()
    one = _by_version(kind).get(kind.resource.api_version) if kind.is_edited else None
    waiting: dict[int, bytes] = {}  # with the digests of texts that may turn out to be as they are shown
    for index, text in enumerate(texts):
        if not text.startswith(head):
            waiting[index] = b""
        elif one is not None and (digest := DEFINED.digest(one.schema(), text)) not in DEFINED:
            waiting[index] = digest
    if not waiting:
        return texts
    made, stored = list(texts), [orjson.loads(texts[index]) for index in waiting]
    shown = in_version(kind, stored)
    for (index, digest), before, document in zip(waiting.items(), stored, shown, strict=True):
        made[index] = orjson.dumps(document)
        if digest and made[index] == orjson.dumps(before):
            made[index] = texts[index]
            DEFINED.add(digest)
    return made


def object_in_version(kind: Kind, obj: Any) -> Any:
    """Return an object in the version of a kind; the same object if it is stored as it is shown."""
    if not kind.is_edited and (not kind.converts or obj.api_version == kind.resource.api_version):
        return obj
    stored = orjson.loads(text_of(obj))
    (document,) = in_version(kind, [stored])
    return obj if same(document, stored) else decode(kind, orjson.dumps(document))


def stored_version(kind: Kind, obj: Object, old: Any = None) -> Any:
    """Return an object of a kind in the version in which it is stored, with the defaults of that version.

    `old`: what is stored now. The generation is raised if the spec differs in fields that only that version has.
    """
    if not kind.converts:
        return obj
    home = KINDS[kind.key]
    if obj.api_version == home.resource.api_version:
        return obj
    (document,) = in_version(home, [orjson.loads(text_of(obj))])
    made = decode(home, orjson.dumps(home.fill(document)))
    if old is None or home.convert is None or not home.has_generation or same(made.spec, old.spec):
        return made
    return made.with_meta(generation=old.metadata.generation + 1)


def field_versions(kind: Kind) -> Versions | None:
    """Return the served versions of a kind for the comparison of field ownership. None: it has a single version."""
    home = KINDS.get(kind.key) if kind.converts or kind.versions else None
    if home is None:
        return None
    served = {one.resource.api_version: one for one in (*((home,) if home.is_served else ()), *home.versions)}

    def version(api_version: str) -> Version | None:
        found = served.get(api_version)
        if found is None:
            return None
        return Version(with_metadata(found.schema()), lambda document: in_version(found, [document])[0])

    return version


def _asked(kind: Kind, conversion: Document, documents: list[Document], version: str) -> list[Document]:
    """Return objects as the conversion webhook of a kind answers. Raises StatusError."""
    client = conversion.get("clientConfig") or {}
    failing = f"conversion webhook for {version}, Kind={kind.resource.kind} "
    if not client.get("url"):
        raise StatusError(f"{failing}failed: it is a Service, and there are no Services here: write clientConfig.url")
    uid = str(uuid.uuid4())
    body = review_of(documents, kind.resource.api_version, uid=uid)
    caller = _client(configuration().settings().members)
    sent = caller.post(kind.key, client["url"], body, bundle=client.get("caBundle") or "", seconds=SECONDS)
    try:
        return converted(caller.run(sent).result(), documents, kind.resource.api_version, uid=uid)
    except ConversionFailed as error:
        raise StatusError(f"{failing}{error}") from error
    except TimeoutError as error:
        raise StatusError(f"{failing}failed: no answer within {SECONDS:g} s") from error
    except FAILURES as error:
        raise StatusError(f"{failing}failed: {str(error)[:1024] or type(error).__name__}") from error


@lru_cache(maxsize=2)
def _client(settings: MemberSettings) -> WebhookClient:
    return WebhookClient(settings)
