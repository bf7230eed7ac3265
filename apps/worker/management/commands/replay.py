"""`manage.py replay`: runs a failed decision again, from a file with its inputs."""

from __future__ import annotations

import pdb
import pickle
import traceback
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.worker.failures import load
from controlplane.controllers import CONTROLLERS
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision
from controlplane.engine.failure import Failure
from controlplane.settings import Settings


class Command(BaseCommand):
    help = "Run a failed decision again from a file, without database and network. Prints the decision or the error."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the file that the log names: .lifeboat/replay/….pickle")
        parser.add_argument("--debug", action="store_true", help="open the debugger at the error")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            failure = load(options["file"])
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from error
        except (pickle.UnpicklingError, EOFError, ImportError, AttributeError, TypeError, ValueError, IndexError):
            raise CommandError(f"{options['file']} has no decision that this version of Lifeboat has kept") from None
        if not isinstance(failure, Failure):
            raise CommandError(f"{options['file']} has something else than a decision")
        self.stdout.write(f"controller {failure.controller}, object {failure.ref}, at {failure.now}")
        self.stdout.write(f"it failed with: {failure.error}")
        controller = next((item for item in CONTROLLERS if item.name == failure.controller), None)
        if controller is None:
            raise CommandError(f"controller {failure.controller} does not exist any more")
        try:
            decision = again(controller, failure)
        except Exception as error:
            self.stderr.write(traceback.format_exc())
            if options["debug"]:
                pdb.post_mortem(error.__traceback__)
            raise CommandError(f"it failed again: {type(error).__name__}: {error}") from error
        self.stdout.write("it succeeds now; the decision:")
        self.stdout.write(msgspec.json.format(msgspec.json.encode(decision, enc_hook=repr)).decode())


def again(controller: Controller, failure: Failure) -> Decision:
    """Return what the controller decides now. Raises the exception that the controller raises."""
    settings = failure.settings or Settings()
    return controller.decide(failure.snapshot, settings, now=failure.now, answer=failure.answer)
