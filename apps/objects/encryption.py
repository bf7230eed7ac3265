"""Secrets at rest: what they hold is encrypted in every table and in the change log, also inside Works that carry them.

`sealed` is called where an object becomes text for the database, `opened` where such text is read. Keys come from
LIFEBOAT_ENCRYPTION_KEYS and from nothing else; the first one encrypts, all of them decrypt (DESIGN section 9).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from msgspec.structs import replace

from apps.objects.secret_fields import HELD, LAST_APPLIED, annotations_of, is_secret, secrets
from config import env
from controlplane.apimachinery.meta import Object
from controlplane.kinds import WORK
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work

VARIABLE: Final = "LIFEBOAT_ENCRYPTION_KEYS"
SECRET: Final = "Secret"
KINDS: Final = frozenset((SECRET, WORK))
"""Kinds whose documents may hold something sealed."""

_PREFIX: Final = "lifeboat:sealed:1:"
_MARK: Final = b'"lifeboat:sealed:1:'

Document = dict[str, Any]
Change = Callable[[str], str]
Form = TypeVar("Form", str, bytes)


class SealError(Exception):
    """Secrets cannot be encrypted or decrypted with the keys there are."""


def keys(text: str) -> tuple[Fernet, ...]:
    """Return the keys of a comma list, the one that encrypts first. Raises SealError where there is none or one is no
    32 bytes of URL-safe base64."""
    try:
        return tuple(Fernet(word + "=" * (-len(word) % 4)) for word in env.keys(VARIABLE, text))
    except env.EnvironmentInvalid as error:
        raise SealError(str(error)) from None


@lru_cache(maxsize=4)
def _ring(text: str) -> MultiFernet:
    return MultiFernet(keys(text))


def sealed(obj: Object) -> Object:
    """Return the object as it goes into the database: itself where it holds no Secret."""
    if isinstance(obj, Work):
        return _sealed_work(obj)
    if obj.kind != SECRET or not isinstance(obj, Template) or obj.api_version != "v1":
        return obj
    held = {"metadata": {"annotations": dict(obj.metadata.annotations)}, **obj.content}
    closed = _changed(held, _seal)
    annotations = closed.pop("metadata")["annotations"]
    return replace(obj, content=closed, metadata=replace(obj.metadata, annotations=annotations))


def _sealed_work(work: Work) -> Work:
    manifests = work.spec.workload.manifests
    if not any(map(is_secret, manifests)):
        return work
    closed = tuple(_changed(one, _seal) if is_secret(one) else one for one in manifests)
    return replace(work, spec=replace(work.spec, workload=replace(work.spec.workload, manifests=closed)))


def opened(kind: str, text: Form) -> Form:
    """Return a stored document as it is served. Other kinds and documents without Secrets come back as they are.

    Raises SealError where no key fits.
    """
    if kind not in KINDS:
        return text
    return converted(text, _open)


def rotated(text: str) -> str:
    """Return a stored document sealed with the first key; itself where it is already, or holds nothing sealed."""
    return converted(text, _rotate)


def converted(text: Form, change: Change) -> Form:
    """Return a stored document with `change` applied to every sealed value; itself where that changes nothing."""
    raw = text.encode() if isinstance(text, str) else text
    if _MARK not in raw:
        return text
    document = orjson.loads(raw)
    result = document
    for path in secrets(document):
        result = _replaced(result, path, lambda secret: _changed(secret, change))
    if result == document:
        return text
    found = orjson.dumps(result)
    return found.decode() if isinstance(text, str) else found


def _replaced(value: Any, path: tuple[str | int, ...], change: Callable[[Document], Document]) -> Any:
    """Return a copy of a document with the part at a path changed."""
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], change)
    return copy


def _changed(secret: Document, change: Change) -> Document:
    """Return a Secret with everything it holds changed: values, and kubectl's copy of the whole."""
    copy = dict(secret)
    for part in HELD:
        if isinstance(copy.get(part), dict):
            copy[part] = {key: change(value) if isinstance(value, str) else value for key, value in copy[part].items()}
    said = annotations_of(copy)
    if isinstance(said.get(LAST_APPLIED), str):
        applied = {**said, LAST_APPLIED: change(said[LAST_APPLIED])}
        copy["metadata"] = {**copy["metadata"], "annotations": applied}
    return copy


def _seal(value: str) -> str:
    return _PREFIX + _ring(settings.ENCRYPTION_KEYS).encrypt(value.encode()).decode()


def _open(value: str) -> str:
    if not value.startswith(_PREFIX):
        return value
    try:
        return _ring(settings.ENCRYPTION_KEYS).decrypt(value.removeprefix(_PREFIX)).decode()
    except InvalidToken:
        raise _lost_key() from None


def _rotate(value: str) -> str:
    if not value.startswith(_PREFIX):
        return value
    token = value.removeprefix(_PREFIX)
    try:
        keys(settings.ENCRYPTION_KEYS)[0].decrypt(token)
    except InvalidToken:
        try:
            return _PREFIX + _ring(settings.ENCRYPTION_KEYS).rotate(token).decode()
        except InvalidToken:
            raise _lost_key() from None
    return value


def _lost_key() -> SealError:
    return SealError(f"a stored Secret was sealed with none of {VARIABLE}: add the key it was sealed with to the list")
