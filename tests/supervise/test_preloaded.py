"""Processes that are forked from the one with all code log as those that start by themselves."""

import subprocess
import sys
from pathlib import Path

import pytest

from apps.development.supervise import lifetime
from tests.supervise.conftest import bare_environment

# A child as `_become` makes it: standard error is another file, and what its parent had open is closed.
CHILD = """
import logging, os, sys
from apps.development.preloaded import preload
preload()
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)
os.closerange(3, 100)
import django
django.setup()
logging.getLogger("apps.worker").info("an ordinary line")
logging.getLogger("lifeboat.audit").info("an audited request")
"""


@pytest.mark.parametrize("audited_to", ["", "file", "-"])
def test_a_forked_process_writes_each_line_to_its_own_log_and_audited_requests_to_their_file(
    audited_to: str, tmp_path: Path
) -> None:
    log, file = tmp_path / "log", tmp_path / "audit"
    environment = bare_environment(
        LIFEBOAT_SECRET_KEY="only-for-tests",
        LIFEBOAT_ENCRYPTION_KEYS="b25seS1mb3ItdGVzdHMtLW9ubHktZm9yLXRlc3RzLS0",
        LIFEBOAT_AUDIT_FILE=str(file) if audited_to == "file" else audited_to,
    )

    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(log)],
        cwd=lifetime.PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    audited = {"": log.read_text(), "file": file.read_text() if file.exists() else "", "-": done.stdout}[audited_to]
    assert log.read_text().count("an ordinary line") == 1, done.stderr
    assert audited.count("an audited request") == 1, done.stderr
