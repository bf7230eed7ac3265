"""What holds for all controllers together."""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from controlplane import controllers
from controlplane.controllers import CONTROLLERS, reads
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Controller

PACKAGE = "controlplane.controllers"
FILES = sorted(module.name for module in pkgutil.iter_modules(controllers.__path__) if not module.ispkg)
READS = sorted(module.name for module in pkgutil.iter_modules(reads.__path__))


def imports(module: str) -> set[str]:
    """Return the modules of the package controllers that a module imports from."""
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text())
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in named if name == PACKAGE or name.startswith(f"{PACKAGE}.")}


def test_a_name_means_one_controller() -> None:
    assert [name for name, times in Counter(one.name for one in CONTROLLERS).items() if times > 1] == []


def test_the_members_process_runs_those_that_ask_members_and_no_others() -> None:
    asking = {one.name for one in CONTROLLERS if isinstance(one, MemberController)}

    assert asking == {one.name for one in CONTROLLERS if one.group == "members"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_defines_one_controller_and_it_is_registered(name: str) -> None:
    module = import_module(f"{PACKAGE}.{name}")

    defined = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Controller) and one.__module__ == module.__name__
    ]

    assert len(defined) == 1
    assert [type(one) for one in CONTROLLERS if type(one).__module__ == module.__name__] == defined


@pytest.mark.parametrize("name", FILES)
def test_a_controller_imports_no_other_controller(name: str) -> None:
    """What several controllers read is in controllers/reads."""
    others = {one for one in imports(f"{PACKAGE}.{name}") if not one.startswith(f"{PACKAGE}.reads")}

    assert others == set()


@pytest.mark.parametrize("name", READS)
def test_what_controllers_read_imports_no_controller(name: str) -> None:
    import_module(f"{PACKAGE}.reads.{name}")

    assert {one for one in imports(f"{PACKAGE}.reads.{name}") if not one.startswith(f"{PACKAGE}.reads")} == set()
