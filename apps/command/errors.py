"""Errors of the command. Each has a message for the user and an exit code."""

from __future__ import annotations

from typing import Any

from apps.command import exit_codes
from apps.command.exit_codes import ExitCode

Document = dict[str, Any]


class CommandError(Exception):
    """Ends the command with a message on stderr. `advice`: what to do, a command if possible."""

    def __init__(self, message: str, *, code: ExitCode, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.advice = advice

    def lines(self) -> list[str]:
        """Return the lines that are printed: the message, and the advice."""
        return [f"error: {self.message}", *([self.advice] if self.advice else [])]


class Refused(CommandError):
    """The API answered with a Status document. `status` is that document."""

    def __init__(self, status: Document, http: int) -> None:
        super().__init__(str(status.get("message") or f"the API answered {http}"), code=_code(http))
        self.status = status
        self.http = http
        if http == 401:
            self.advice = (
                "the credentials of the kubeconfig are missing, wrong or have expired: get a new one with "
                "manage.py kubeconfig, or renew its token with manage.py token renew"
            )
        if http == 403:
            self.advice = (
                "the role lifeboat:viewer reads the fleet, and lifeboat:operator acts on it; with rights in a "
                "namespace only, name it with -n; kubectl auth can-i --list shows what you may do"
            )

    @property
    def causes(self) -> list[Document]:
        causes = self._details.get("causes")
        return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []

    @property
    def _details(self) -> Document:
        """The details of a Status; of another answer, which may have any text there, none."""
        details = self.status.get("details")
        return details if isinstance(details, dict) else {}

    def lines(self) -> list[str]:
        """Return the message of the Status. A Status with causes is a heading, and a line for each cause."""
        causes = self.causes
        if not causes:
            return super().lines()
        subject = " ".join(str(self._details[name]) for name in ("kind", "name") if self._details.get(name))
        heading = f"error: the API refuses {subject or 'the request'}:"
        return [heading, *(f"  {cause.get('field') or 'it'}: {cause.get('message', '')}" for cause in causes)]


def code_of(status: Document) -> int:
    """Return the HTTP code in a Status; 500: it has none."""
    code = status.get("code")
    return code if isinstance(code, int) and code else 500


def _code(http: int) -> ExitCode:
    if http in (401, 403):
        return exit_codes.DENIED
    if http == 404:
        return exit_codes.NOT_FOUND
    return exit_codes.UNREACHABLE if http == 429 or http >= 500 else exit_codes.REFUSED


def usage(message: str, *, advice: str = "") -> CommandError:
    """Return the error for wrong options or arguments."""
    return CommandError(message, code=exit_codes.USAGE, advice=advice)
