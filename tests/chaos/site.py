"""The product under its supervisor, as the chaos sees it: what runs, the API, the members and the database."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import yaml

from apps.development.supervise import lifetime, records
from apps.development.supervise.run_folder import RunFolder
from apps.development.supervise.stack import MEMBERS
from apps.simulator import folder
from apps.simulator.members import ask

Document = dict[str, Any]
ELSEWHERE = (
    *("DATABASE_URL", "REDIS_URL", "LIFEBOAT_POSTGRES_BIN", "DJANGO_SETTINGS_MODULE"),
    records.TOKEN_VARIABLE,
)
SECONDS = 10.0  # a client waits this long for an answer
NAMESPACE = "default"
UNSENT = -1
PATHS = {
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "ResourceBinding": f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings",
    "Work": "/apis/work.karmada.io/v1alpha1/works",
    "PropagationPolicy": f"/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/propagationpolicies",
    "Cluster": "/apis/cluster.karmada.io/v1alpha1/clusters",
}


class Answer(NamedTuple):
    """What came back. `status` 0: nothing did, and what was sent may have been done; UNSENT: no process listened."""

    status: int
    document: Document


class Site:
    """A stack in a folder of its own, with servers of its own."""

    def __init__(self, root: Path) -> None:
        self.home = RunFolder(root)

    def up(self) -> None:
        """Start everything, on data of its own. Raises RuntimeError with what the supervisor said."""
        self._supervise("clean")
        self._supervise("up")
        facts = self.home.published()
        assert facts is not None, "it is up and has published nothing"
        self.database_url: str = facts["environment"]["DATABASE_URL"]
        self.api_url: str = facts["api"]
        kubeconfig = yaml.safe_load((self.home.root / "kubeconfig").read_text())
        self.token: str = kubeconfig["users"][0]["user"]["token"]
        self.known = folder.read(Path(facts["members"]))

    def down(self) -> None:
        """End everything; data and logs stay for a reader who looks into a failure."""
        self._supervise("down")

    def _supervise(self, verb: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "apps.development.supervise", verb, "--dir", str(self.home.root)],
            cwd=lifetime.PROJECT,
            env={name: value for name, value in os.environ.items() if name not in ELSEWHERE},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def running(self, name: str) -> records.Record | None:
        """Return the record of a program that runs now, None while it does not."""
        found = (one for one in records.read_records(self.home.run) if one.name == name)
        return next((one for one in found if one.alive()), None)

    def ask(self, method: str, path: str, body: Any = None, *, type: str = "application/json") -> Answer:
        """Return the API's answer on a connection of its own."""
        return _asked(self.api_url, self.token, method, path, body, type)

    def items(self, kind: str) -> list[Document]:
        """Return all objects of a kind. Raises ConnectionError where the API does not answer with a list."""
        answer = self.ask("GET", PATHS[kind])
        if answer.status != 200:
            raise ConnectionError(f"{kind}: {answer.status} {answer.document.get('message', '')}")
        found: list[Document] = answer.document["items"]
        return found

    def on_members(self, name: str) -> dict[str, Document]:
        """Return the Deployment of that name as each member holds it; members without one are left out."""
        found = {}
        for one in self.known["members"]:
            answer = _asked(one["url"], one["token"], "GET", f"{PATHS['Deployment']}/{name}")
            if answer.status == 200:
                found[one["name"]] = answer.document
            elif answer.status != 404:
                raise ConnectionError(f"{one['name']}: {answer.status}")
        return found

    def set_fault(self, member: str, fault: str) -> None:
        """Let a fault begin in a member; "none" ends it."""
        ask(self.known["control"], "PUT", f"/members/{member}/fault", {"fault": fault, "seconds": 3.0})

    def heal(self) -> None:
        for member in MEMBERS:
            self.set_fault(member, "none")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what the database answers."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[call-overload]


def _asked(url: str, token: str, method: str, path: str, body: Any = None, type: str = "application/json") -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": type}
    try:
        connection.connect()
    except OSError:
        return Answer(UNSENT, {})
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return Answer(response.status, json.loads(response.read() or b"{}"))
    except (OSError, http.client.HTTPException, ValueError):
        return Answer(0, {})
    finally:
        connection.close()
