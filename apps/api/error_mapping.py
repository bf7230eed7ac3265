"""Whatever goes wrong, as a StatusError: Django's, REST framework's and the database's errors in Kubernetes' words."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import psycopg
import psycopg_pool
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions

from apps.api.health import HEALTH
from apps.objects.refusal import LOCKED, POOL_EMPTY, READ_ONLY, cause, sqlstate
from controlplane.apimachinery import errors
from controlplane.apimachinery.errors import StatusError
from controlplane.engine.state import Unstorable
from controlplane.wire.status import status_of

log = logging.getLogger(__name__)

RETRY_SECONDS = 1
BUSY_SECONDS = 5  # where trying again at once is of no use
# What does not pass by itself within a second: a held lock, a full disk, a server that takes no writes.
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


def status_error(error: BaseException) -> StatusError:
    """Return the error to answer with. What nobody anticipated is logged with its trace and told without details."""
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
            return errors.TooLarge("the body is larger than the server takes")
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
    return _own_error()


def is_away(error: BaseException | None) -> bool:
    """Return whether the database did not do what it was asked, for a reason that is not the request's."""
    return isinstance(error, _AWAY) or (isinstance(error, InternalError) and sqlstate(error) == READ_ONLY)


def _away(error: BaseException) -> errors.ServiceUnavailable:
    """Return the answer, with the cause; it is logged, and a refusal that lasts is kept for /readyz."""
    why, state = cause(error), sqlstate(error)
    if why == POOL_EMPTY:  # nobody knows why no connection was made: the pool keeps that to itself
        why = HEALTH.database_problem() or "all connections of this process to PostgreSQL are in use"
    elif state in _LASTS:
        HEALTH.note_refused(why)
    log.warning("the database did not do what it was asked: %s", why)
    return errors.ServiceUnavailable(
        f"the database did not do this: {why}; try again",
        retry_after_seconds=BUSY_SECONDS if state in _LASTS else RETRY_SECONDS,
    )


def _own_error() -> errors.InternalError:
    return errors.InternalError("an error of the server itself; its log says which")


def nothing_here() -> errors.NotFound:
    """Return the error for a URL nothing is served under."""
    return errors.NotFound("the server could not find the requested resource")


def respond(error: StatusError) -> HttpResponse:
    """Return an error as a response, outside of REST framework."""
    response = HttpResponse(orjson.dumps(status_of(error)), status=error.code, content_type="application/json")
    add_headers(response, error)
    return response


def add_headers(response: Any, error: StatusError) -> None:
    """Set the headers that belong to an error."""
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


# Handlers of config.urls, for what never reaches a view of ours. Pages for people stay pages.


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(status_error(SuspiciousOperation()))


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(status_error(PermissionDenied()))


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(nothing_here())


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer for a page that failed (the admin's, the login's); Django calls this while it handles the error and logs
    its trace."""
    error = sys.exception()
    return respond(_away(error) if error is not None and is_away(error) else _own_error())


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return respond(errors.Forbidden(f"CSRF check failed: {reason}; reload the page and try again"))
