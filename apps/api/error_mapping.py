"""Maps errors of Django, REST framework and the database to the Status errors of Kubernetes."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import orjson
import psycopg
import psycopg_pool
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from rest_framework import exceptions

from apps.api.health import HEALTH
from apps.objects.decision_log import log_refusal
from apps.objects.encryption import SealError
from apps.objects.refusal import LOCKED, POOL_EMPTY, READ_ONLY, cause, sqlstate
from controlplane.apimachinery import errors
from controlplane.apimachinery.errors import StatusError
from controlplane.engine.state import Unreadable, Unstorable
from controlplane.wire.status import status_of

log = logging.getLogger(__name__)

RETRY_SECONDS = 1
BUSY_SECONDS = 5  # Retry-After for a problem that lasts longer than a second
# SQL states that last longer than a second: a held lock, a full disk, a server that accepts no writes.
_LASTS = frozenset({LOCKED, READ_ONLY, "53100", "53200", "53300", "58030"})
_AWAY = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError, psycopg_pool.PoolTimeout)
_BY_CODE: dict[int, type[StatusError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    406: errors.NotAcceptable,
    413: errors.TooLarge,
    415: errors.UnsupportedMediaType,
    429: errors.TooManyRequests,
}


_DAMAGED: Final = (
    "a stored object is damaged or from a later release, and cannot be read; the log names it, and manage.py damaged "
    "restores or deletes it"
)


def status_error(error: BaseException) -> StatusError:
    """Return the error for the answer. An unexpected error is logged with its trace; the client gets no details."""
    match error:
        case StatusError():
            return error
        case exceptions.NotAcceptable():
            return errors.NotAcceptable(
                "only application/json, application/yaml, text/html and Kubernetes' Table and PartialObjectMetadata "
                "(application/json;as=Table;g=meta.k8s.io;v=v1) are served: Accept one of them"
            )
        case exceptions.APIException():
            return _of_code(error.status_code, _text(error.detail))
        case Http404():
            return nothing_here()
        case RequestDataTooBig():
            return errors.TooLarge("the body is larger than the server accepts")
        case PermissionDenied():
            return errors.Forbidden(str(error) or "this is forbidden")
        case SuspiciousOperation():
            return errors.BadRequest(
                "the request is malformed, or its Host header is not one of LIFEBOAT_ALLOWED_HOSTS"
            )
    if is_away(error):
        return _away(error)
    if isinstance(error, Unstorable):
        log.warning("refused by the database: %s", error)
        return errors.Invalid(f"the database cannot store this: {error}")
    log.error("request failed", exc_info=error)
    if isinstance(error, SealError):
        return errors.InternalError(error.message)
    return errors.InternalError(_DAMAGED) if isinstance(error, Unreadable) else _own_error()


def is_away(error: BaseException | None) -> bool:
    """Test whether the database failed for a reason outside the request: it is away, locked or read-only."""
    return isinstance(error, _AWAY) or (isinstance(error, InternalError) and sqlstate(error) == READ_ONLY)


def _away(error: BaseException) -> errors.ServiceUnavailable:
    """Return the 503 answer with the cause, and log it. A lasting refusal is also kept for /readyz."""
    why, state = cause(error), sqlstate(error)
    if why == POOL_EMPTY:  # the pool does not report why it has no connection
        why = HEALTH.database_problem() or "all connections of this process to PostgreSQL are in use"
    elif state in _LASTS:
        HEALTH.note_refused(why)
    log.warning("the database refused a request: %s", why)
    return errors.ServiceUnavailable(
        f"the database refused this request: {why}; try again",
        retry_after_seconds=BUSY_SECONDS if state in _LASTS else RETRY_SECONDS,
    )


def _own_error() -> errors.InternalError:
    return errors.InternalError("an internal error of the server; the details are in its log")


def nothing_here() -> errors.NotFound:
    """Return the error for a URL under which nothing is served."""
    return errors.NotFound("the server could not find the requested resource")


def respond(error: StatusError) -> HttpResponse:
    """Return an error as a response, for views outside REST framework."""
    response = HttpResponse(orjson.dumps(status_of(error)), status=error.code, content_type="application/json")
    add_headers(response, error)
    return response


def add_headers(response: Any, error: StatusError) -> None:
    """Set the headers of an error: Retry-After and WWW-Authenticate."""
    if error.details.retry_after_seconds:
        response["Retry-After"] = str(error.details.retry_after_seconds)
    if error.code == 401:
        response["WWW-Authenticate"] = 'Bearer realm="lifeboat"'


def _of_code(code: int, message: str) -> StatusError:
    return _BY_CODE.get(code, errors.InternalError)(message)


def _text(detail: Any) -> str:
    if isinstance(detail, dict):
        return "; ".join(f"{key}: {_text(value)}" for key, value in detail.items())
    return "; ".join(map(_text, detail)) if isinstance(detail, list) else str(detail)


# Error handlers for config.urls, for requests that do not reach a view of this module.


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _shown(request, status_error(SuspiciousOperation()))


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _shown(request, status_error(PermissionDenied()))


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    message = next((part for part in exception.args if isinstance(part, str)), "")
    return _shown(request, errors.NotFound(message) if message else nothing_here())


def handler500(request: HttpRequest) -> HttpResponse:
    """Return the answer for a failed page of the admin or the login. Django calls this and logs the trace."""
    error = sys.exception()
    away = error is not None and is_away(error)
    return _shown(request, _away(error) if error is not None and away else _own_error(), away=away)


def _shown(request: HttpRequest, error: StatusError, *, away: bool = False) -> HttpResponse:
    """Return an error as a page for a browser, and as a Status for other clients."""
    if "text/html" not in request.headers.get("Accept", ""):
        return respond(error)
    shown = {"error": error, "away": away, "wrote": request.method == "POST", "title": error.reason}
    text = render_to_string("console/error.html", shown)
    response = HttpResponse(text, status=error.code)
    add_headers(response, error)
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    error = errors.Forbidden(
        f"CSRF check failed: {reason}. Nothing was done: go back, reload the page there, and send its form again"
    )
    log_refusal(error, actor="", way=f"{request.method} {request.path}")
    return _shown(request, error)
