"""The lock files have every pinned package, in its version and with hashes: what CI and the image install is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.config.prose import PROJECT

LOCKS = {"requirements.lock": "requirements-tracing.txt", "requirements-dev.lock": "requirements-dev.txt"}
DO = "run `make lock`"


def pins(path: Path) -> Iterator[Requirement]:
    """Yield the requirements of a file and of the files that it includes."""
    for line in path.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text.startswith("-r "):
            yield from pins(path.parent / text.removeprefix("-r "))
        elif text:
            yield Requirement(text)


def locked(path: Path) -> dict[str, dict[str, int]]:
    """Return the versions of each package in a lock file, with the number of hashes of each."""
    found: dict[str, dict[str, int]] = {}
    for entry in re.split(r"\n(?=\S)", path.read_text()):
        requirement = Requirement(re.split(r" \\\n", entry)[0])
        (version,) = [one.version for one in requirement.specifier]
        found.setdefault(canonicalize_name(requirement.name), {})[version] = entry.count("--hash=sha256:")
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pinned_package_is_locked_in_its_version_with_hashes(lock: str) -> None:
    found = locked(PROJECT / lock)

    for pin in pins(PROJECT / LOCKS[lock]):
        (version,) = [one.version for one in pin.specifier]
        assert found.get(canonicalize_name(pin.name), {}).get(version), f"{pin} is not in {lock}: {DO}"
    assert all(count for versions in found.values() for count in versions.values())


def test_a_package_of_the_image_is_tested_in_the_same_version() -> None:
    image, tests = (locked(PROJECT / lock) for lock in LOCKS)

    different = {name for name, versions in image.items() if tests.get(name, {}).keys() != versions.keys()}

    assert different == set(), DO
