"""Users, roles and bindings for tests of rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.api.server import Client, Server
from tests.processes import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def user(server: Server, name: str, *, groups: Sequence[str] = ()) -> Client:
    """Create a user in Django's groups and return a connection with the user's token."""
    made = f"""
from django.contrib.auth.models import Group, User
user, _ = User.objects.get_or_create(username={name!r})
user.groups.set([Group.objects.get_or_create(name=name)[0] for name in {list(groups)!r}])"""
    server.manage("shell", "-c", made)
    return server.client(server.manage("token", "create", "--user", name))


def bind(api: Client, name: str, *, to: dict[str, Any], roles: Sequence[str], namespace: str = "") -> None:
    """Bind ClusterRoles to a subject: in a namespace, or everywhere."""
    plural = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    for role in roles:
        body = {
            "metadata": {"name": f"{name}-{role.replace(':', '-')}"},
            "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [to],
        }
        answer = api.post(f"{RBAC}/{plural}", body)
        assert answer.status == 201, answer.body


def wait_until_allowed(client: Client, verb: str, resource: str, *, group: str = "", namespace: str = "") -> None:
    """Wait until the server knows that the user may do this."""
    asked = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    question = {"spec": {"resourceAttributes": asked}}
    until(lambda: client.post(ACCESS, question).document["status"]["allowed"], within=10)
