"""Responses that the event loop gives after their view has authorised the request: streams, pushes, the proxy."""

from __future__ import annotations

import orjson
from django.http import HttpResponse

from apps.objects.audit import Trail
from controlplane.apimachinery.errors import ServiceUnavailable
from controlplane.wire.status import status_of


class HandedOver(HttpResponse):
    """A response of the shell. Its own status is sent only by a server without the shell. `what`: needs the shell.

    trail: of the request, for a refusal by the shell. None: no request was audited.
    """

    def __init__(self, what: str) -> None:
        self.trail: Trail | None = None
        error = ServiceUnavailable(f"{what} the ASGI server: manage.py serve")
        super().__init__(orjson.dumps(status_of(error)), status=error.code, content_type="application/json")
        self._has_been_logged = True  # for Django: this status is not what the client receives
