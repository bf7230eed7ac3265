"""`make pod-commands`: exec, attach, port-forward, cp and logs from clients to a container, through everything between.

client -> proxy of the control plane -> a real kube-apiserver -> the kubelet of this package. Prints each command and
its output. Fails if an output is not the expected one, or if the member did not get the name of the caller.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config, stream

from tests.kubelet import certificate
from tests.kubelet.server import HOST, kubelet, server_context
from tests.lab import kubectl, listed, members, stack
from tests.processes import until

MEMBER: Final = "member1"
SPACE: Final = "shop"
WITHIN: Final = 60.0
MANY: Final = 300_000  # lines, about 2 MB
CALLER: Final = f"system:serviceaccount:{SPACE}:mia"
STREAMS: Final = ("pods/exec", "pods/attach", "pods/portforward", "pods/log")
AUDITED: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],  # before the impersonation
    "rules": [{"level": "Metadata", "resources": [{"group": "", "resources": STREAMS}]}],
}
SCOPE: Final[dict[str, list[str]]] = {
    "exec": ["--operation-scope=members"],
    "attach": ["--operation-scope=members"],
    "logs": [],
}  # arguments of karmadactl
# kubectl and karmadactl use a websocket if these are not set.
OVER: Final = {
    "websocket": {},
    "SPDY": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"},
}
TEMPLATE: Final = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]},
}
MANIFEST: Final[list[dict[str, Any]]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mia", "namespace": SPACE}},
    {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    },
]


class Site:
    """A client's view: the kubeconfig of the control plane, the path of the proxy, and the pod."""

    def __init__(self, kubeconfig: Path, karmadactl: Path) -> None:
        self._kubeconfig, self._karmadactl = kubeconfig, karmadactl
        server = kubectl(kubeconfig, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
        self.through = f"{server}/apis/cluster.karmada.io/v1alpha1/clusters/{MEMBER}/proxy"
        self.pod = ""

    def kubectl(self, *words: str, token: str = "") -> list[str]:
        """Return a command of kubectl through the proxy; `token`: of another caller than the admin."""
        who = [f"--token={token}"] if token else []
        return ["kubectl", f"--kubeconfig={self._kubeconfig}", f"--server={self.through}", "-n", SPACE, *who, *words]

    def karmadactl(self, *words: str) -> list[str]:
        """Return a command of karmadactl."""
        return [
            str(self._karmadactl),
            f"--kubeconfig={self._kubeconfig}",
            "-n",
            SPACE,
            words[0],
            *SCOPE[words[0]],
            f"--cluster={MEMBER}",
            *words[1:],
        ]


def main() -> int:
    """Run everything. Raises AssertionError at the first output that is not the expected one."""
    parser = argparse.ArgumentParser(prog="make pod-commands")
    parser.add_argument("--lab", type=Path, required=True, help="folder with the programs and scripts of members")
    parser.add_argument("--dir", type=Path, required=True, help="folder for the member and the stack")
    arguments = parser.parse_args()
    lab, folder = arguments.lab.resolve(), arguments.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pair, audit = certificate.written(folder), folder / "audit.log"
    audit.unlink(missing_ok=True)
    (folder / "audit-policy.json").write_text(json.dumps(AUDITED))
    flags = {
        "kubelet-preferred-address-types": "InternalIP",  # the names of nodes resolve nowhere
        "kubelet-certificate-authority": pair.certificate,
        "kubelet-client-certificate": pair.certificate,
        "kubelet-client-key": pair.key,
        "audit-policy-file": folder / "audit-policy.json",
        "audit-log-path": audit,
    }
    said = " ".join(f"--{name}={value}" for name, value in flags.items())
    environment = {**os.environ, "LAB": str(folder), "APISERVER_FLAGS": said}
    with members(lab, environment, count=1) as configs, stack(folder / "stack", environment, configs) as kubeconfig:
        (member,) = configs
        site = Site(kubeconfig, folder / "gopath/bin/karmadactl")
        site.pod = _running_pod(kubeconfig, member)
        # Its place is taken: a pod that runs goes on, and the node keeps its address and port.
        subprocess.run([str(lab / "members.sh"), "stop", MEMBER, "kubelet"], env=environment, check=True)
        (node,) = listed(member, "nodes")
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        with kubelet(port, server_context(pair.certificate, pair.key, pair.certificate)) as asked:
            _commands(site)
            _terminal(site)
            _attached(site)
            _logs(site)
            _forwarded(site)
            _copied(site, folder)
            _python_client(site, kubeconfig)
            _other_caller(site, kubeconfig, member)
            _audited(audit)
        protocols = sorted({one.headers.get("upgrade", "none") for one in asked})
        print(f"the kubelet got {len(asked)} requests; protocols: {', '.join(protocols)}")
    return 0


def _running_pod(kubeconfig: Path, member: Path) -> str:
    """Create the workload in the control plane, and return the name of its pod when it runs in the member."""
    for document in MANIFEST:
        kubectl(kubeconfig, "apply", "-f", "-", given=document)

    def running() -> list[str]:
        pods = listed(member, "pods", "-n", SPACE)
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]

    return str(until(running, within=WITHIN)[0])


def _commands(site: Site) -> None:
    """Commands: what they print, what they read, how they end."""
    script = "cat; echo wrong >&2; exit 7"
    for over in OVER:
        _expect(site.kubectl("exec", site.pod, "--", "echo", "hello"), "hello\n", over=over)
        words = site.kubectl("exec", "-i", site.pod, "-c", "web", "--", "sh", "-c", script)
        _expect(words, "given\n", given="given\n", code=7, errors="wrong\n", over=over)
        large = "x" * 3_000_000
        _expect(site.kubectl("exec", "-i", site.pod, "--", "cat"), large, given=large, over=over)
        # A command that does not read all of its input: its output arrives whole, and how it ended.
        words = site.kubectl("exec", "-i", site.pod, "--", "sh", "-c", f"head -c 1; seq {MANY}; exit 7")
        _expect(words, "x" + "".join(f"{number}\n" for number in range(1, MANY + 1)), given="xyz", code=7, over=over)
        _expect(site.karmadactl("exec", site.pod, "--", "echo", "hello"), "hello\n", over=over)
        _expect(site.karmadactl("exec", "-i", site.pod, "--", "cat"), "given\n", given="given\n", over=over)


def _terminal(site: Site) -> None:
    """A command with a terminal knows the size of the client's window, and gets what is typed."""
    for over in OVER:
        ours, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        words = site.kubectl(
            "exec", "-it", site.pod, "--", "sh", "-c", "stty size; read typed; echo got $typed; exit 3"
        )
        print(f"$ {_shown(words, over)}")
        with subprocess.Popen(words, stdin=its, stdout=its, stderr=its, env=_environment(over)) as process:
            os.close(its)
            seen = _until_read(ours, b"33 77")
            os.write(ours, b"typed\r")
            seen += _until_read(ours, b"got typed")
            print(seen.decode())
            code = process.wait(WITHIN)
        os.close(ours)
        assert code == 3, f"the command ended with 3, and kubectl with {code}"


def _attached(site: Site) -> None:
    """What is typed reaches the container, and comes back."""
    for over in OVER:
        place = f"attached to {SPACE}/{site.pod}/web\n"
        _expect(site.kubectl("attach", "-i", site.pod), place + "given\n", given="given\n", over=over)
        _expect(site.karmadactl("attach", "-i", site.pod), place + "given\n", given="given\n", over=over)


def _logs(site: Site) -> None:
    """A log, and a log that is followed: its lines arrive while it goes on."""
    line = f"{SPACE}/{site.pod}/web: line "
    whole = "".join(f"{line}{number}\n" for number in (1, 2, 3))
    _expect(site.kubectl("logs", site.pod), whole)
    _expect(site.karmadactl("logs", site.pod), whole)
    for words in (site.kubectl("logs", "-f", site.pod), site.karmadactl("logs", "-f", site.pod)):
        print(f"$ {_shown(words)}")
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None, "stdout is a pipe"
            lines = [following.stdout.readline() for _ in range(6)]
            following.terminate()
        print("".join(lines))
        assert lines == [f"{line}{number}\n" for number in range(1, 7)], lines


def _forwarded(site: Site) -> None:
    """A connection to a local port reaches a port of the pod, more than once."""
    with _web() as port:
        for over in OVER:
            words = site.kubectl("port-forward", site.pod, f":{port}")
            print(f"$ {_shown(words, over)}")
            pipe = subprocess.PIPE
            with subprocess.Popen(words, stdout=pipe, stderr=pipe, env=_environment(over), text=True) as forwarding:
                assert forwarding.stdout is not None, "stdout is a pipe"
                said = forwarding.stdout.readline()
                local = said.split(":")[1].split()[0]
                for number in range(3):
                    curl = ["curl", "-sS", "--max-time", "20", f"http://{HOST}:{local}/page-{number}"]
                    _expect(curl, f"the page /page-{number} of the pod\n")
                forwarding.terminate()


def _copied(site: Site, folder: Path) -> None:
    """`kubectl cp`, which is tar by exec."""
    source, back = folder / "source.bin", folder / "back.bin"
    source.write_bytes(os.urandom(200_000))
    back.unlink(missing_ok=True)
    _expect(site.kubectl("cp", f"{SPACE}/{site.pod}:{source}", str(back)), None)
    assert back.read_bytes() == source.read_bytes(), "the copy differs"


def _python_client(site: Site, kubeconfig: Path) -> None:
    """The Python client, which has the websocket's version without a way to close its input."""
    read = json.loads(kubectl(kubeconfig, "config", "view", "--raw", "-o", "json"))
    for entry in read["clusters"]:
        entry["cluster"]["server"] = site.through
    api = config.new_client_from_config_dict(read)
    api.configuration.api_key["BearerToken"] = api.configuration.api_key["authorization"]  # its loader of version 36
    print("$ python: kubernetes.stream.stream(connect_get_namespaced_pod_exec, …)")
    core = client.CoreV1Api(api)
    running = stream.stream(
        core.connect_get_namespaced_pod_exec,
        site.pod,
        SPACE,
        command=["sh", "-c", "read line; echo got $line; echo wrong >&2; exit 5"],
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    running.write_stdin("typed\n")
    running.run_forever(timeout=WITHIN)
    said = (running.read_stdout(), running.read_stderr(), running.returncode)
    print(said)
    assert said == ("got typed\n", "wrong\n", 5), said


def _other_caller(site: Site, kubeconfig: Path, member: Path) -> None:
    """Another caller needs rights here and in the member, and the member knows the name."""
    token = kubectl(kubeconfig, "create", "token", "mia", "-n", SPACE).strip()
    command = site.kubectl("exec", site.pod, "--", "echo", "hello", token=token)
    refused = (
        f'Error from server (Forbidden): clusters.cluster.karmada.io "{MEMBER}" is forbidden: User "{CALLER}" cannot'
    )
    _expect(command, "", code=1, begins=refused)
    role = ("--verb=*", "--resource=clusters.cluster.karmada.io/proxy", f"--resource-name={MEMBER}")
    kubectl(kubeconfig, "create", "clusterrole", "proxy-mia", *role)
    kubectl(
        kubeconfig, "create", "clusterrolebinding", "mia", "--clusterrole=proxy-mia", f"--serviceaccount={SPACE}:mia"
    )
    refused = (
        f'Error from server (Forbidden): pods "{site.pod}" is forbidden: User "{CALLER}" cannot get resource "pods"'
    )
    until(lambda: _ran(command).stderr.startswith(refused), within=WITHIN)
    _expect(command, "", code=1, begins=refused)
    rights = ("--verb=get,create", "--resource=pods,pods/exec")
    kubectl(member, "create", "role", "runs", "-n", SPACE, *rights)
    kubectl(member, "create", "rolebinding", "mia", "-n", SPACE, "--role=runs", f"--serviceaccount={SPACE}:mia")
    until(lambda: _ran(command).returncode == 0, within=WITHIN)
    _expect(command, "hello\n")


def _audited(audit: Path) -> None:
    """Check that the audit log of the member names two users: the impersonator and the caller it acts as."""
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    names = {(one["user"]["username"], one.get("impersonatedUser", {}).get("username")) for one in events}
    subresources = {f"pods/{one['objectRef']['subresource']}" for one in events}
    for impersonator, caller in sorted(names):
        print(f"audit of {MEMBER}: {impersonator} as {caller}")
    impersonator = "system:serviceaccount:karmada-cluster:karmada-impersonator"
    assert names == {(impersonator, "admin"), (impersonator, CALLER)}, names
    assert subresources == set(STREAMS), subresources


@contextmanager
def _web() -> Iterator[int]:
    """Serve pages at a port of the pod's network, which is the loopback here, and yield the port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = f"the page {self.path} of the pod\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((HOST, 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _expect(
    words: Sequence[str],
    output: str | None,
    *,
    given: str = "",
    code: int = 0,
    errors: str = "",
    begins: str = "",
    over: str = "websocket",
) -> None:
    """Run a command, print it, and compare. `errors`: its first line of stderr; `begins`: the beginning of stderr."""
    print(f"$ {_shown(words, over)}", flush=True)
    done = _ran(words, given=given, over=over)
    print((done.stdout[:200] + done.stderr[:200]), flush=True)
    assert done.returncode == code, f"status {done.returncode} instead of {code}: {done.stderr}"
    assert output is None or done.stdout == output, f"{len(done.stdout)} characters: {done.stdout[:200]!r}"
    assert not errors or errors in done.stderr, done.stderr
    assert done.stderr.startswith(begins), done.stderr


def _ran(words: Sequence[str], *, given: str = "", over: str = "websocket") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, input=given, capture_output=True, text=True, timeout=WITHIN, env=_environment(over), check=False
    )


def _environment(over: str) -> dict[str, str]:
    return {**os.environ, **OVER[over]}


def _shown(words: Sequence[str], over: str = "websocket") -> str:
    """Return a command as it is printed: without the folders of the run."""
    shown = (word for word in words[1:] if not word.startswith(("--kubeconfig", "--token")))
    return " ".join([*(f"{name}={value}" for name, value in OVER[over].items()), Path(words[0]).name, *shown])


def _until_read(terminal: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        try:
            data = os.read(terminal, 65_536)
        except OSError:
            data = b""
        assert data, f"the terminal showed {seen!r}"
        seen += data
    return seen


if __name__ == "__main__":
    sys.exit(main())
