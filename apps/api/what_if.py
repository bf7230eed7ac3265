"""What-if: POST asks what changes would do to the workloads; GET reads the answer to a large question."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies, pages
from apps.api.answer import ObjectAnswer
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.api.views import KubernetesView, warning
from apps.failover import what_if_runs
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.what_if import effects_of, is_small, readable_status, status_of
from controlplane.admission.admit import admit_create
from controlplane.apimachinery.errors import Invalid, MethodNotAllowed, NotFound
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.insight.changes import Change, decoded_changes
from controlplane.kinds.what_if import KIND, RESOURCE, WhatIf, WhatIfSpec, WhatIfStatus
from controlplane.wire.request import metadata_of


class WhatIfView(KubernetesView):
    """Serves POST of a WhatIf, which is answered with its status: 201 with the effects, or 202 with a name to read.

    GET of that name returns the progress, and the effects once they are known. Only the user who asked can read them.
    """

    http_method_names = ["get", "head", "post", "options"]
    renderer_classes = pages.OBJECTS

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope(name=self.kwargs.get("name") or ""))

    def post(self, request: Request, name: str | None = None) -> Response:
        if name:
            raise MethodNotAllowed("POST is possible on whatifs, not on a single one")
        document, warnings = bodies.question(request, KIND)
        asked, changes = _asked(document)
        if not asked.spec.background and is_small(store(), changes):
            status = readable_status(status_of(effects_of(store(), changes)), request.user)
            return warning(Response(_served("", changes, status), status=201), warnings)
        run = what_if_runs.start(changes, user=request.user.get_username())
        return warning(Response(_served(run, changes, what_if_runs.Run("", ()).status), status=202), warnings)

    def get(self, request: Request, name: str | None = None) -> Response:
        if not name:
            raise MethodNotAllowed("whatifs cannot be listed: read one by the name that POST answered with")
        run = what_if_runs.find(name, user=request.user.get_username())
        if run is None:
            why = "there is no such question of yours, its answer has expired, or its process has died: ask again"
            raise NotFound(why, kind=RESOURCE.plural, group=RESOURCE.group, name=name)
        changes, _ = decoded_changes(run.changes)
        return Response(_served(name, changes, readable_status(run.status, request.user)))


def _asked(document: dict[str, Any]) -> tuple[WhatIf, tuple[Change, ...]]:
    """Return the question in a document, and its changes. Raises BadRequest, or Invalid with all causes."""
    metadata = {**metadata_of(document), "name": "what-if"}
    sent = {key: value for key, value in document.items() if key != "status"}
    now = store().now()
    made = admit_create(
        KIND, {**sent, "metadata": metadata}, namespace="", settings=configuration().settings(), now=now, uid=""
    )
    asked = made.object
    assert isinstance(asked, WhatIf), "admission returns objects of the given kind"
    changes, causes = decoded_changes(asked.spec.changes)
    if causes:
        raise Invalid.of(RESOURCE.kind, "", causes, group=RESOURCE.group)
    return asked, changes


def _served(name: str, changes: tuple[Change, ...], status: WhatIfStatus) -> ObjectAnswer:
    spec = WhatIfSpec(tuple(msgspec.to_builtins(changes)))
    made = WhatIf(RESOURCE.api_version, RESOURCE.kind, ObjectMeta(name=name), spec, status)
    return ObjectAnswer(RESOURCE, msgspec.json.encode(made))
