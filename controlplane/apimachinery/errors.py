"""Errors that a request may end with. Each has an HTTP code and a reason of the Kubernetes API.

All expected errors are of these types. The API turns them into a Status document (`wire.status`). Any other exception
is a defect of the product, and the API answers it with InternalError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the reasons why an object is refused. `field` is a path such as spec.replicas. `reason` is a word of the
    Kubernetes API, such as FieldValueInvalid."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an error is about. `kind` is the plural of the resource, or its kind if only that is known."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class StatusError(Exception):
    """An error with an HTTP code and a Kubernetes reason.

    `message` is for users: it names the field, the value and the rule, and says what to do. `retry_after_seconds` is
    also sent as the header Retry-After; 0: without that header.
    """

    code: int = 500
    reason: str = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        group: str = "",
        name: str = "",
        uid: str = "",
        causes: Iterable[Cause] = (),
        retry_after_seconds: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.warnings: tuple[str, ...] = ()  # of admission, for the author of a write that is refused
        self.details = Details(name, group, kind, uid, tuple(causes), retry_after_seconds)


class BadRequest(StatusError):
    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    code, reason = 404, "NotFound"

    @classmethod
    def of(cls, plural: str, name: str, *, group: str = "") -> NotFound:
        """Return the error for an object that does not exist."""
        return cls(f'{qualified(plural, group)} "{name}" not found', kind=plural, group=group, name=name)


class MethodNotAllowed(StatusError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(StatusError):
    code, reason = 409, "AlreadyExists"

    @classmethod
    def of(cls, plural: str, name: str, *, group: str = "", is_going: bool = False) -> AlreadyExists:
        """Return the error for creating an object when another object has its name.

        `is_going`: that object is being deleted, so it helps to wait.
        """
        why = "object is being deleted: " if is_going else ""
        return cls(f'{why}{qualified(plural, group)} "{name}" already exists', kind=plural, group=group, name=name)


class Conflict(StatusError):
    code, reason = 409, "Conflict"

    @classmethod
    def of(cls, plural: str, name: str, *, group: str = "", why: str = "") -> Conflict:
        """Return the error for a write that conflicts with the stored version.

        `why`: the reason in words; "": the write is based on an older version than the stored one.
        """
        why = why or "the object has been modified; please apply your changes to the latest version and try again"
        message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
        return cls(message, kind=plural, group=group, name=name)


class Gone(StatusError):
    code, reason = 410, "Gone"


class Expired(Gone):
    """The resourceVersion of the request is older than the change log. The client has to list again."""

    reason = "Expired"


class TooLarge(StatusError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(StatusError):
    code, reason = 422, "Invalid"

    @classmethod
    def of(cls, kind: str, name: str, causes: Sequence[Cause], *, group: str = "") -> Invalid:
        """Return the error that lists all causes, so that a user can correct all of them at once."""
        texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
        listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        message = f'{qualified(kind, group)} "{name}" is invalid: {listed}'
        return cls(message, kind=kind, group=group, name=name, causes=causes)


class TooManyRequests(StatusError):
    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    code, reason = 500, "InternalError"


class StorageReadError(StatusError):
    """Stored objects cannot be read. The causes name them, so that they can be repaired one by one."""

    code, reason = 500, "StorageReadError"


class ServiceUnavailable(StatusError):
    code, reason = 503, "ServiceUnavailable"


class VersionTooLarge(StatusError):
    """A list has to show a resourceVersion that is not written yet, perhaps one of another API server.

    Informers know this error by its cause. They then list without a version, and after any other error with the same
    version again.
    """

    code, reason = 504, "Timeout"

    @classmethod
    def of(cls, version: int, newest: int) -> VersionTooLarge:
        """Return the error for a version above the newest one."""
        cause = Cause("ResourceVersionTooLarge", "Too large resource version")
        return cls(f"Too large resource version: {version}, current: {newest}", causes=[cause])


def qualified(word: str, group: str) -> str:
    """Return a plural or a kind with its group, as messages name resources: deployments.apps, pods."""
    return f"{word}.{group}" if group else word
