"""What clients of an application meet: the ready pods behind its Service, over all members, at every moment."""

from __future__ import annotations

import json
import selectors
import socket
import threading
from typing import Any, Self
from urllib.parse import urlsplit

from tests.acceptance.live import MEMBERS, Live

Document = dict[str, Any]
POLL = 0.05  # seconds between two looks whether to end


class Stream:
    """One watch on one member, read without waiting. HTTP/1.0: the body is lines until the end, no chunks."""

    def __init__(self, fleet: Live, member: str, path: str) -> None:
        known = fleet.fleet.member(member)
        url = urlsplit(known["url"])
        assert url.hostname is not None
        assert url.port is not None
        self.member = member
        self.events: list[Document] = []
        self.objects: dict[str, Document] = {}
        self.socket = socket.create_connection((url.hostname, url.port), timeout=10)
        head = [f"GET {path}?watch=true HTTP/1.0", f"Host: {url.netloc}", f"Authorization: Bearer {known['token']}"]
        self.socket.sendall("\r\n".join([*head, "", ""]).encode())
        self.socket.setblocking(False)
        self._rest = b""
        self._in_body = False

    def drain(self) -> bool:
        """Take in everything that is there; False where the member ended the watch."""
        while True:
            try:
                more = self.socket.recv(1 << 16)
            except BlockingIOError:
                return True
            except OSError:
                more = b""
            if not more:
                self.objects.clear()
                return False
            self._rest += more
            if not self._in_body:
                head, separator, self._rest = self._rest.partition(b"\r\n\r\n")
                if not separator:
                    self._rest = head
                    continue
                assert b" 200 " in head.split(b"\r\n", 1)[0], head
                self._in_body = True
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, event: Document) -> None:
        self.events.append(event)
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = event["object"]


class Serving:
    """Watches a Service and its pods on all members for as long as the block lasts.

    All members are one process here, so what happened first has arrived first: everything that is there is taken in
    before the ready endpoints are counted.
    """

    def __init__(self, fleet: Live, namespace: str, service: str) -> None:
        self.service = service
        root = f"/api/v1/namespaces/{namespace}"
        self._pods = [Stream(fleet, one, f"{root}/pods") for one in MEMBERS]
        self._services = [Stream(fleet, one, f"{root}/services") for one in MEMBERS]
        self.counts: list[dict[str, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()
        for one in (*self._pods, *self._services):
            one.socket.close()

    @property
    def least(self) -> int:
        """The fewest ready endpoints there were at any moment since there were any."""
        totals = [sum(one.values()) for one in self.counts]
        first = next((place for place, total in enumerate(totals) if total), len(totals))
        return min(totals[first:], default=0)

    def _watch(self) -> None:
        with selectors.DefaultSelector() as waiting:
            for one in (*self._pods, *self._services):
                waiting.register(one.socket, selectors.EVENT_READ, one)
            while not self._ended.is_set():
                ready = waiting.select(POLL)
                while ready:
                    for key, _ in ready:
                        if not key.data.drain():
                            waiting.unregister(key.fileobj)
                    ready = waiting.select(0)
                now = self._endpoints()
                if not self.counts or self.counts[-1] != now:
                    self.counts.append(now)

    def _endpoints(self) -> dict[str, int]:
        found = {}
        for pods, services in zip(self._pods, self._services, strict=True):
            service = services.objects.get(self.service)
            selector = None if service is None else service["spec"]["selector"]
            serving = sum(_serves(one, selector) for one in pods.objects.values()) if selector else 0
            if serving:
                found[pods.member] = serving
        return found


def _serves(pod: Document, selector: dict[str, str]) -> bool:
    """Test whether a pod is a ready endpoint, as Kubernetes' EndpointSlice controller counts them."""
    labels = pod["metadata"].get("labels", {})
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    gone = "deletionTimestamp" in pod["metadata"]
    return ready and not gone and all(labels.get(key) == value for key, value in selector.items())
