"""Simulated members: in development, the console can make them fail and come back. In production there are none."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any, Final
from urllib.request import Request as HTTPRequest
from urllib.request import urlopen

from django.conf import settings
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.guard import Act, ActPage, Effects
from controlplane.apimachinery.errors import NotFound, ServiceUnavailable
from controlplane.kinds import CLUSTER, KINDS

TIMEOUT_SECONDS: Final = 5
DOWN, UP = "down", "none"  # faults of the simulator


def members() -> dict[str, str]:
    """Return the names of the simulated members with the URL that controls each. {}: not in development."""
    file = settings.LIFEBOAT_HOME / "members" / "members.json"
    if not settings.DEVELOPMENT:
        return {}
    try:
        known: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return {one["name"]: f"{known['control']}/members/{one['name']}/fault" for one in known["members"]}


class FaultPage(ActPage):
    """Takes a simulated member down, or brings it back."""

    def asked(self, request: Request) -> Attributes:
        resource = KINDS[CLUSTER].resource
        return Attributes(request.user, "patch", resource.group, resource.plural, name=self.kwargs["name"])

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        name, fault = self.kwargs["name"], self.kwargs["fault"]
        url = members().get(name)
        if url is None or fault not in (DOWN, UP):
            raise NotFound(f"{name} is not a simulated member of this development environment")
        down = fault == DOWN
        sentence = (
            "The simulated cluster stops answering. Its probes fail, it gets taints, and its workloads move."
            if down
            else "The simulated cluster answers again."
        )
        return Act(
            name=f"Take {name} down" if down else f"Bring {name} back",
            subject=name,
            effects=lambda: Effects(sentence),
            apply=lambda reason: _set(url, fault),
            kubectl=f"make fault MEMBER={name} FAULT={fault}",
            is_destructive=down,
        )


def _set(url: str, fault: str) -> str:
    """Send the fault to the simulator; return the page where its effects are seen. Raises ServiceUnavailable."""
    body = json.dumps({"fault": fault}).encode()
    try:
        with urlopen(HTTPRequest(url, data=body, method="PUT"), timeout=TIMEOUT_SECONDS):
            return "/"
    except (OSError, HTTPException) as error:
        raise ServiceUnavailable(f"the simulator does not answer: {error}; is make run still running?") from error
