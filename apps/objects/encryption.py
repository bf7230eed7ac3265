"""Encryption of Secrets in the database: in tables, in the change log, and in Works that carry Secrets to clusters.

`sealed` is called where an object becomes text for the database, `opened` where such text is read. The keys are those
of LIFEBOAT_ENCRYPTION_KEYS. The first key encrypts, and all of them decrypt.
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
Change = Callable[[str], str]
Form = TypeVar("Form", str, bytes)


class SealError(Unreadable):
    """Secrets cannot be encrypted or decrypted with the keys of LIFEBOAT_ENCRYPTION_KEYS.

    `message`: the same without the name of the object, for those who may not read it.
    """

    def __init__(self, message: str, *, about: str = "") -> None:
        super().__init__(f"{about}: {message}" if about else message)
        self.message = message


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
    document = {"metadata": {"annotations": dict(obj.metadata.annotations)}, **obj.content}
    encrypted = _changed(document, _seal)
    annotations = encrypted.pop("metadata")["annotations"]
    return replace(obj, content=encrypted, metadata=replace(obj.metadata, annotations=annotations))


def _sealed_work(work: Work) -> Work:
    manifests = work.spec.workload.manifests
    if not any(map(is_secret, manifests)):
        return work
    encrypted = tuple(_changed(manifest, _seal) if is_secret(manifest) else manifest for manifest in manifests)
    return replace(work, spec=replace(work.spec, workload=replace(work.spec.workload, manifests=encrypted)))


def opened(kind: str, text: Form) -> Form:
    """Return a stored document with the values of Secrets decrypted, as it is served. Other documents stay as they are.

    Raises SealError if a value was encrypted with a key that is not in the list.
    """
    if kind not in KINDS:
        return text
    return converted(text, _open)


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
    result = document
    try:
        for path in secrets(document):
            result = _replaced(result, path, lambda secret: _changed(secret, change))
    except SealError as error:
        metadata = document["metadata"]
        place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        raise SealError(error.message, about=f"{document['kind']} {place}") from None
    if result == document:
        return text
    written = orjson.dumps(result)
    return written.decode() if isinstance(text, str) else written


def _replaced(value: Any, path: tuple[str | int, ...], change: Callable[[Document], Document]) -> Any:
    """Return a copy of a document with the part at a path changed."""
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], change)
    return copy


def _changed(secret: Document, change: Change) -> Document:
    """Return a Secret with `change` applied to its values and to kubectl's copy of it in an annotation."""
    copy = dict(secret)
    for part in HELD:
        if isinstance(copy.get(part), dict):
            copy[part] = {key: change(value) if isinstance(value, str) else value for key, value in copy[part].items()}
    annotations = annotations_of(copy)
    if isinstance(annotations.get(LAST_APPLIED), str):
        changed = {**annotations, LAST_APPLIED: change(annotations[LAST_APPLIED])}
        copy["metadata"] = {**copy["metadata"], "annotations": changed}
    return copy


def _seal(value: str) -> str:
    return _PREFIX + _all_keys(settings.ENCRYPTION_KEYS).encrypt(value.encode()).decode()


def _open(value: str) -> str:
    if not value.startswith(_PREFIX):
        return value
    try:
        return _all_keys(settings.ENCRYPTION_KEYS).decrypt(value.removeprefix(_PREFIX)).decode()
    except InvalidToken:
        raise _missing_key() from None


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
        f"a stored Secret was encrypted with a key that is not in {VARIABLE}: add that key to the end of the list"
    )
