"""A name server that does not answer for one zone."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from typing import Any

ZONE = ".lost.example"
PATIENCE = 10.0  # seconds


class NameServer:
    """Answers for all names but those of one zone. `asked`: how often each of them was asked for."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.answers = threading.Event()
        self._real = socket.getaddrinfo

    def look_up(self, host: Any, *rest: Any, **more: Any) -> Any:
        if not str(host).endswith(ZONE):
            return self._real(host, *rest, **more)
        self.asked[host] += 1
        self.answers.wait(PATIENCE)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
