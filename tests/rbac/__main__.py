"""`python -m tests.rbac KUBECONFIG`: ask a kube-apiserver and store its answers. It is emptied of what was made."""

from __future__ import annotations

import base64
import gzip
import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.rbac.questions import GROUP, WRITERS, Document, questions, stored, writes

ANSWERS = Path(__file__).parent / "answers.json.gz"
RBAC, REVIEWS = f"/apis/{GROUP}/v1", "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SETTLED_SECONDS = 3  # until the server's cache knows all roles


class Server:
    """A kube-apiserver and an administrator's token."""

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        self._url, self._token = cluster["server"], config["users"][0]["user"]["token"]

    def ask(self, method: str, path: str, body: Any = None, *, user: str = "") -> tuple[int, Document]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        headers |= {"Impersonate-User": user} if user else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def url_of(document: Document) -> str:
    namespace = document["metadata"].get("namespace")
    return f"{RBAC}/{f'namespaces/{namespace}/' if namespace else ''}{document['kind'].lower()}s"


def main(kubeconfig: str) -> None:
    server, made = Server(kubeconfig), []
    for document in (*stored(), *WRITERS):
        status, answer = server.ask("POST", url_of(document), document)
        assert status in (201, 409), answer
        made.append(document)
    time.sleep(SETTLED_SECONDS)
    allowed = []
    for spec in questions():
        status, answer = server.ask("POST", REVIEWS, {"spec": spec})
        assert status == 201, answer
        allowed.append(bool(answer["status"]["allowed"]))
    written = []
    for write in writes():
        status, _ = server.ask("POST", f"{url_of(write['document'])}?dryRun=All", write["document"], user=write["user"])
        written.append(status)
    for document in made:
        server.ask("DELETE", f"{url_of(document)}/{document['metadata']['name']}")
    _, version = server.ask("GET", "/version")
    answers = {"version": version["gitVersion"], "allowed": allowed, "written": written}
    ANSWERS.write_bytes(gzip.compress(json.dumps(answers).encode(), mtime=0))
    print(f"{len(allowed)} questions, {sum(allowed)} allowed; {len(written)} writes, {written.count(201)} allowed")


if __name__ == "__main__":
    main(sys.argv[1])
