"""An agent that is stopped closes its file while a thread may still write to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own: SQLite ends the process if a connection is closed while it runs a statement.
STOPPED = """
import sys, threading
from pathlib import Path
from apps.agent.disk import Disk
from controlplane.apimachinery.meta import Ref

DOCUMENT = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}}'

for number in range(60):
    disk, writes = Disk(Path(sys.argv[1], str(number))), threading.Event()

    def write():
        for name in range(200):
            disk.keep(Ref("ConfigMap", "shop", str(name)), DOCUMENT)
            writes.set() if name == number else None

    thread = threading.Thread(target=write)
    thread.start()
    writes.wait()
    disk.close()
    thread.join()
    kept = len(list(Disk(Path(sys.argv[1], str(number))).objects("ConfigMap")))
    assert number < kept <= 200, kept
"""


def test_an_agent_that_is_stopped_while_it_writes_keeps_what_it_wrote_and_ends_as_usual(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED, str(tmp_path)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
