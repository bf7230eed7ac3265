"""A 404 counts only if the API server of the member has given it: a proxy that has lost the member answers so too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from apps.clusters.client import MemberClient
from controlplane.clusters.questions import Discard, Target
from tests.apps.proxies import ANYWHERE, HOST

SETTINGS = "/api/v1/namespaces/default/configmaps/one"
GONE = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}
GROUPS = {"kind": "APIGroupList", "groups": [{"versions": [{"groupVersion": "example.org/v1"}]}]}
SERVED = {"kind": "APIResourceList", "resources": [{"name": "widgets", "kind": "Widget"}]}
CORE = {"kind": "APIResourceList", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]}
CASES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "the API server has no such object": ("v1 ConfigMap", {SETTINGS: GONE}, True),
    "a proxy has no member": ("v1 ConfigMap", {}, False),
    "a proxy has no member and reports it in JSON": ("v1 ConfigMap", {SETTINGS: {"message": "no route"}}, False),
    "a proxy has just found the member again": ("v1 ConfigMap", {"/api/v1": CORE, "/apis": GROUPS}, False),
    "a proxy leads some requests elsewhere": ("v1 ConfigMap", {"/apis": GROUPS}, False),
    "a proxy has no member with kinds of users": ("example.org/v1 Widget", {}, False),
    "the member does not have the kind": ("example.org/v1 Gadget", {"/apis/example.org/v1": SERVED}, True),
    "the member does not have the version": ("example.org/v2 Widget", {"/apis": GROUPS}, True),
    "the member does not have the group": ("example.com/v1 Widget", {"/apis": GROUPS}, True),
    "what is listed is no list of groups": ("example.com/v1 Widget", {"/apis": {}}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_an_object_is_gone_only_if_an_api_server_reports_it(case: str) -> None:
    kind, answers, gone = CASES[case]
    version, _, name = kind.partition(" ")
    manifest = {"apiVersion": version, "kind": name, "metadata": {"name": "one", "namespace": "default"}}

    async def answer(request: web.Request) -> web.StreamResponse:
        found = answers.get(request.path)
        if found is None:
            return web.Response(text="default backend - 404", status=404)
        return web.json_response(found, status=404 if found.get("kind") in (None, "Status") and found else 200)

    async def story() -> int:
        app, client = web.Application(), MemberClient(ANYWHERE)
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        try:
            target = Target("member1", f"http://{HOST}:{runner.addresses[0][1]}")
            discarded = await client.discard(Discard(target, manifest))
        finally:
            await client.close()
            await runner.cleanup()
        return discarded.code

    assert asyncio.run(story()) == (404 if gone else 0)
