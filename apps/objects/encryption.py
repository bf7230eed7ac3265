"""Encryption of Secrets in the database: in tables, in the change log, and in Works that carry Secrets to clusters.

`sealed` is called where an object becomes text for the database, `opened` where such text is read. The keys are those
of LIFEBOAT_ENCRYPTION_KEYS. The first key encrypts, and all of them decrypt.

A value whose key is not in the list cannot be read. In an object it is an `Unopened` value, which is written again as
it was stored. So an object whose key is lost can be replaced, relabelled and deleted. In a text that shows only what is
known of an object (`legible`), a placeholder stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from msgspec.structs import replace

from apps.objects.secret_fields import HELD, LAST_APPLIED, annotations_of, is_secret, secrets
from config import env
from controlplane.apimachinery.meta import Object
from controlplane.apimachinery.names import UNREADABLE_ANNOTATION
from controlplane.apimachinery.unopened import PLACEHOLDER, Unopened, holds_unopened
from controlplane.engine.state import Unreadable
from controlplane.kinds import WORK
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work

VARIABLE: Final = "LIFEBOAT_ENCRYPTION_KEYS"
SECRET: Final = "Secret"
KINDS: Final = frozenset((SECRET, WORK))
"""Kinds whose documents may contain encrypted values."""

_PREFIX: Final = "lifeboat:sealed:1:"
_MARK: Final = b'"lifeboat:sealed:1:'

Document = dict[str, Any]
Change = Callable[[Any], Any]
Form = TypeVar("Form", str, bytes)


class Opening(Protocol):
    """Returns a stored document as a client gets it: `opened`, `legible` or `for_agent`."""

    def __call__(self, kind: str, text: Form) -> Form: ...


class SealError(Unreadable):
    """Secrets cannot be encrypted or decrypted with the keys of LIFEBOAT_ENCRYPTION_KEYS.

    `message`: the same without the names of the objects, for those who may not read them. `places`: these names, with
    the namespace before them.
    """

    def __init__(self, message: str, *, about: str = "", places: Sequence[str] = ()) -> None:
        super().__init__(f"{about}: {message}" if about else message)
        self.message = message
        self.places = tuple(places)


def keys(text: str) -> tuple[Fernet, ...]:
    """Return the keys of a list with commas; the first one encrypts.

    Raises SealError if the list is empty, or if a key is not 32 bytes in URL-safe base64.
    """
    try:
        return tuple(Fernet(word + "=" * (-len(word) % 4)) for word in env.keys(VARIABLE, text))
    except env.EnvironmentInvalid as error:
        raise SealError(str(error)) from None


@lru_cache(maxsize=4)
def _all_keys(text: str) -> MultiFernet:
    return MultiFernet(keys(text))


def sealed(obj: Object) -> Object:
    """Return the object with the values of Secrets encrypted. An object without Secrets stays as it is."""
    if isinstance(obj, Work):
        return _sealed_work(obj)
    if obj.kind != SECRET or not isinstance(obj, Template) or obj.api_version != "v1":
        return obj
    return _with_document(obj, _changed(_document(obj), _seal))


def _document(obj: Template) -> Document:
    """Return the parts of a Secret that may be secret, as in its document."""
    head = {"apiVersion": obj.api_version, "kind": obj.kind}
    return {**head, "metadata": {"annotations": dict(obj.metadata.annotations)}, **obj.content}


def _with_document(obj: Template, document: Document) -> Template:
    content = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    annotations = document["metadata"]["annotations"]
    return replace(obj, content=content, metadata=replace(obj.metadata, annotations=annotations))


def _sealed_work(work: Work) -> Work:
    manifests = work.spec.workload.manifests
    if not any(map(is_secret, manifests)):
        return work
    encrypted = tuple(_changed(manifest, _seal) if is_secret(manifest) else manifest for manifest in manifests)
    return replace(work, spec=replace(work.spec, workload=replace(work.spec.workload, manifests=encrypted)))


def opened(kind: str, text: Form) -> Form:
    """Return a stored document as it is served: as `decrypted` does.

    Raises SealError if a value was encrypted with a key that is not in the list, unless it is that of a Work that is
    being deleted: it has placeholders, so what is written must not be made of it.
    """
    try:
        return decrypted(kind, text)
    except SealError:
        # The agent that removes the object of a Work needs none of its values, and would wait for them for ever.
        if kind == WORK and orjson.loads(text)["metadata"].get("deletionTimestamp"):
            return legible(kind, text)
        raise


def decrypted(kind: str, text: Form) -> Form:
    """Return a stored document with the values of Secrets decrypted. Other documents stay as they are.

    Raises SealError if a value was encrypted with a key that is not in the list.
    """
    return text if kind not in KINDS else converted(text, _open)


def all_opened(kind: str, texts: Iterable[Form], *, opening: Opening = opened) -> list[Form]:
    """Return stored documents as `opening` does. Raises SealError with the places of all that fail."""
    found, lost, message = list[Form](), list[str](), ""
    for text in texts:
        try:
            found.append(opening(kind, text))
        except SealError as error:
            lost += error.places
            message = error.message
    if lost:
        raise SealError(message, about=f"{kind} {', '.join(lost)}", places=lost)
    return found


def legible(kind: str, text: Form) -> Form:
    """Return a stored document as `opened` does, with a placeholder for each value that cannot be decrypted."""
    return text if kind not in KINDS else converted(text, _shown)


def for_agent(kind: str, text: Form) -> Form:
    """Return a stored document as `opened` does. A Work whose values cannot be decrypted is suspended and marked: its
    agent leaves the object of this Work as it is, and goes on with all others."""
    try:
        return opened(kind, text)
    except SealError:
        document = orjson.loads(legible(kind, text))
        metadata = document["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), UNREADABLE_ANNOTATION: "true"}
        document["spec"]["suspendDispatching"] = True
        written = orjson.dumps(document)
        return written.decode() if isinstance(text, str) else written


def as_far_as_possible(text: str) -> tuple[str, Document]:
    """Return a stored document as `legible` does, and the document with `Unopened` values in these places."""
    return converted(text, _shown), _each_secret(orjson.loads(text), _open_or_keep)


def with_unopened(obj: Any, source: Any) -> Any:
    """Return an object with the `Unopened` values of `source` where it has their placeholders, so that they are stored
    again as they are. `source`: the same object, or its document, as it was read."""
    if isinstance(obj, Work):
        manifests = obj.spec.workload.manifests
        held = source.spec.workload.manifests if isinstance(source, Work) else source["spec"]["workload"]["manifests"]
        kept = tuple(_restored(new, old) for new, old in zip(manifests, held, strict=False)) + manifests[len(held) :]
        if all(new is old for new, old in zip(kept, manifests, strict=True)):
            return obj
        return replace(obj, spec=replace(obj.spec, workload=replace(obj.spec.workload, manifests=kept)))
    if obj.kind != SECRET or not isinstance(obj, Template):
        return obj
    document = _document(obj)
    restored = _restored(document, _document(source) if isinstance(source, Template) else source)
    return obj if restored is document else _with_document(obj, restored)


def as_shown(obj: Any) -> Any:
    """Return an object with placeholders for its `Unopened` values: rules compare it with what clients send back."""
    if isinstance(obj, Work) and holds_unopened(obj.spec.workload.manifests):
        shown = tuple(_changed(one, _as_placeholder) if is_secret(one) else one for one in obj.spec.workload.manifests)
        return replace(obj, spec=replace(obj.spec, workload=replace(obj.spec.workload, manifests=shown)))
    if isinstance(obj, Template) and obj.kind == SECRET and holds_unopened(document := _document(obj)):
        return _with_document(obj, _changed(document, _as_placeholder))
    return obj


def _restored(new: Document, old: Document) -> Document:
    """Return a Secret with the unopened values of an earlier state of it where it has their placeholders."""
    if not (is_secret(new) and is_secret(old) and holds_unopened(old)):
        return new
    before = {part: old.get(part) or {} for part in HELD} | {LAST_APPLIED: annotations_of(old)}

    def restore(part: str, key: str, value: Any) -> Any:
        was = before[part].get(key)
        return was if value == PLACEHOLDER and isinstance(was, Unopened) else value

    return _changed_by_place(new, restore)


def rotated(text: str) -> str:
    """Return a stored document with its encrypted values encrypted by the first key.

    The document stays as it is if they already are, or if it has none.
    """
    return converted(text, _rotate)


def converted(text: Form, change: Change) -> Form:
    """Return a stored document with `change` applied to every encrypted value; the same text if nothing changes.

    Raises SealError with the name of the object if `change` does.
    """
    raw = text.encode() if isinstance(text, str) else text
    if _MARK not in raw:
        return text
    document = orjson.loads(raw)
    result = _each_secret(document, change)
    if result == document:
        return text
    written = orjson.dumps(result)
    return written.decode() if isinstance(text, str) else written


def _each_secret(document: Document, change: Change) -> Document:
    """Return a document with `change` applied to every encrypted value. Raises SealError with the name of the object if
    `change` does."""
    result = document
    try:
        for path in secrets(document):
            result = _replaced(result, path, lambda secret: _changed(secret, change))
    except SealError as error:
        metadata = document["metadata"]
        place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        raise SealError(error.message, about=f"{document['kind']} {place}", places=[place]) from None
    return result


def _replaced(value: Any, path: tuple[str | int, ...], change: Callable[[Document], Document]) -> Any:
    """Return a copy of a document with the part at a path changed."""
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], change)
    return copy


def _changed(secret: Document, change: Change) -> Document:
    """Return a Secret with `change` applied to its values and to kubectl's copy of it in an annotation."""
    return _changed_by_place(secret, lambda part, key, value: change(value))


def _changed_by_place(secret: Document, change: Callable[[str, str, Any], Any]) -> Document:
    """Return a Secret with `change(part, key, value)` applied to what may be secret.

    `part` is LAST_APPLIED for kubectl's copy of the Secret in an annotation.
    """
    copy = dict(secret)
    for part in HELD:
        if isinstance(copy.get(part), dict):
            copy[part] = {
                key: change(part, key, value) if isinstance(value, str | Unopened) else value
                for key, value in copy[part].items()
            }
    annotations = annotations_of(copy)
    if isinstance(annotations.get(LAST_APPLIED), str | Unopened):
        changed = {**annotations, LAST_APPLIED: change(LAST_APPLIED, LAST_APPLIED, annotations[LAST_APPLIED])}
        copy["metadata"] = {**copy["metadata"], "annotations": changed}
    return copy


def _seal(value: str | Unopened) -> str:
    if isinstance(value, Unopened):
        return value.sealed
    return _PREFIX + _all_keys(settings.ENCRYPTION_KEYS).encrypt(value.encode()).decode()


def _open(value: str) -> str:
    if not value.startswith(_PREFIX):
        return value
    try:
        return _all_keys(settings.ENCRYPTION_KEYS).decrypt(value.removeprefix(_PREFIX)).decode()
    except InvalidToken:
        raise _missing_key() from None


def _shown(value: str) -> str:
    try:
        return _open(value)
    except SealError:
        return PLACEHOLDER


def _open_or_keep(value: str) -> str | Unopened:
    try:
        return _open(value)
    except SealError:
        return Unopened(value)


def _as_placeholder(value: str | Unopened) -> str:
    return PLACEHOLDER if isinstance(value, Unopened) else value


def _rotate(value: str) -> str:
    if not value.startswith(_PREFIX):
        return value
    token = value.removeprefix(_PREFIX)
    try:
        keys(settings.ENCRYPTION_KEYS)[0].decrypt(token)
    except InvalidToken:
        try:
            return _PREFIX + _all_keys(settings.ENCRYPTION_KEYS).rotate(token).decode()
        except InvalidToken:
            raise _missing_key() from None
    return value


def _missing_key() -> SealError:
    return SealError(
        f"a stored Secret was encrypted with a key that is not in {VARIABLE}: add that key to the end of the list, or "
        "replace or delete the Secret"
    )
