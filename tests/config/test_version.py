"""The version stands in one place."""

from __future__ import annotations

import tomllib

from controlplane import __version__
from tests.config.prose import PROJECT


def test_the_package_takes_its_version_from_the_code() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())

    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "controlplane.__version__"}


def test_the_list_of_changes_begins_with_the_version() -> None:
    text = (PROJECT / "CHANGELOG.md").read_text()

    assert text[text.index("\n## ") :].startswith(f"\n## {__version__}")
