"""`python -m tests.admission KUBECONFIG`: ask a kube-apiserver and store its answers.

The server has to be a new one: a kube-apiserver that has removed the last policy with parameters of a kind does not
read parameters of that kind again. The warnings about types come from the controller
`validatingadmissionpolicy-status-controller` of a kube-controller-manager; without it the known ones are kept.
"""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.admission import asking, version_cases
from tests.admission.asking import Reply, content_type
from tests.admission.hook_cases import HOOKS
from tests.admission.hook_server import HookServer
from tests.admission.policy_documents import POLICIES
from tests.admission.version_cases import VERSIONS
from tests.rbac.__main__ import Server

ANSWERS = Path(__file__).parent / "answers.json"
SETTLED_SECONDS = 5  # until the server has compiled all policies
_WARNING = re.compile(r'299 - "((?:\\.|[^"\\])*)"')


class Recorded(Server):
    """A kube-apiserver whose warnings are read, too."""

    def send(self, method: str, path: str, body: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type(method, path)}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context) as answer:
                return Reply(answer.status, json.load(answer), warnings_in(answer.headers.get_all("Warning") or []))
        except urllib.error.HTTPError as error:
            return Reply(error.code, _document(error.read()), warnings_in(error.headers.get_all("Warning") or []))


def _document(text: bytes) -> Any:
    """Return the document of an error. A kube-apiserver answers for a kind that it does not serve yet without one."""
    return json.loads(text) if text.startswith(b"{") else {}


def warnings_in(values: list[str]) -> list[str]:
    """Return the texts of Warning headers."""
    return [re.sub(r"\\(.)", r"\1", text) for value in values for text in _WARNING.findall(value)]


def main(kubeconfig: str) -> None:
    ask = Recorded(kubeconfig).send
    asking.make_namespace(ask)
    cases = range(len(POLICIES))
    for case in cases:
        asking.make_policy(ask, case)
    time.sleep(SETTLED_SECONDS)
    found: dict[str, Any] = {"policies": [asking.policy_writes(ask, case) for case in cases]}
    for case in cases:
        asking.remove_policy(ask, case)
    found |= {"specs": asking.spec_answers(ask), "bindings": asking.binding_answers(ask)}
    server = HookServer()
    for case in range(len(HOOKS)):
        asking.make_hooks(ask, case, server)
    time.sleep(SETTLED_SECONDS)
    found["hooks"] = [without_ports(asking.hook_writes(ask, case)) for case in range(len(HOOKS))]
    for case in range(len(HOOKS)):
        asking.remove_hooks(ask, case)
    found["versions"] = [without_ports(version_cases.answers(ask, case, server)) for case in range(len(VERSIONS))]
    server.close()
    found["configured"] = asking.configured_answers(ask)
    found["version"] = ask("GET", "/version", None).body["gitVersion"]
    known = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    found["typed"] = asking.typed_answers(ask) or known.get("typed")
    ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def without_ports(answers: Any) -> Any:
    """Return answers without the ports of the webhook server and of connections to it."""
    return json.loads(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", json.dumps(answers)))


if __name__ == "__main__":
    main(sys.argv[1])
