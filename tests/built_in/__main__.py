"""`python -m tests.built_in KUBECONFIG`: send the requests to a kube-apiserver and store its answers.

The kube-apiserver runs without controllers. Creations and edits are dry runs; the bases stay until it is wiped.
"""

from __future__ import annotations

import base64
import json
import lzma
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.built_in.requests import LIMITED, NAMESPACE, Base, Document, bases, changes, requests
from tests.simulator.comparison.answers import Real
from tests.simulator.comparison.cases import Step

ANSWERS = Path(__file__).with_name("answers.json.xz")


def url_of(base: Base) -> str:
    resource = base.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"namespaces/{base.document['metadata']['namespace']}/" if resource.namespaced else ""
    return f"{root}/{place}{resource.plural}"


def answer_of(status: int, body: Document) -> Document:
    """Return the stored form of an answer: the code with the causes of a refusal, or with the object."""
    if body.get("kind") != "Status":
        return {"code": status, "object": body}
    causes = [
        [cause.get("field", ""), cause.get("reason", ""), cause.get("message", "")]
        for cause in (body.get("details") or {}).get("causes", ())
    ]
    return {"code": status, "causes": causes, "message": body.get("message", "")}


def main(kubeconfig: str) -> None:
    config = yaml.safe_load(Path(kubeconfig).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    url = urlsplit(cluster["server"])
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    server = Real.at(url.hostname or "", url.port or 443, ca=ca, token=user["token"])
    for namespace in (NAMESPACE, LIMITED):
        server.send(Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for name in ("default", "runner"):
        server.send(Step("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}}))
    known, stored, made = bases(), dict[str, Document](), list[Any]()
    for base in known.values():
        status, body = server.send(Step("GET", f"{url_of(base)}/{base.document['metadata']['name']}"))
        if status == 404:
            status, body = server.send(Step("POST", url_of(base), base.document))
        if status >= 300:
            print(base.name, status, body.get("message"))
        stored[base.name] = body
    for change in changes():
        base = known[change.base]
        created, edited = requests(change, base.document, stored[change.base])
        new = answer_of(*server.send(Step("POST", f"{url_of(base)}?dryRun=All", created)))
        place = f"{url_of(base)}/{base.document['metadata']['name']}"
        edit = None if edited is None else answer_of(*server.send(Step("PUT", f"{place}?dryRun=All", edited)))
        made.append([change, new, edit])
    _, version = server.send(Step("GET", "/version"))
    kept = {"version": version["gitVersion"], "stored": stored, "answers": made}
    ANSWERS.write_bytes(lzma.compress(json.dumps(kept, separators=(",", ":")).encode(), preset=9))
    codes: dict[Any, int] = {}
    for _, new, edit in made:
        for answer in filter(None, (new, edit)):
            codes[answer["code"]] = codes.get(answer["code"], 0) + 1
    print(
        f"{2 * len(made)} requests to kube-apiserver {version['gitVersion']}: {codes}; {ANSWERS.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main(sys.argv[1])
