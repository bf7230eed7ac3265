"""The process that runs expressions of users: `python -m apps.objects.cel_process`. It reads calls from its standard
input and answers each of them, in order.

A call has `do`: "violations" or "faults" of the rules of a schema, "checks" and "types" of an admission policy,
"matched" of a webhook's conditions, or "expressions" of these. Before each rule a message with `at` (field and rule) is
written, so that the caller knows which rule used up the time of a call.
"""

from __future__ import annotations

import signal
import sys
from collections import OrderedDict
from typing import Any, BinaryIO

import orjson

from apps.objects.confined_process import limit, read, write
from controlplane.wire.cel import admission_faults, rule_faults
from controlplane.wire.cel.admission_checks import Expressions, checked, matched
from controlplane.wire.cel.rules import MISSING, RuledNode, violations
from controlplane.wire.cel.type_checks import type_warnings

MAX_COMPILED = 64  # schemas, policies and webhooks that are kept compiled


class Answers:
    """Answers calls, and keeps the compiled rules of the schemas, policies and webhooks that were used last."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._compiled: OrderedDict[str, RuledNode | Expressions] = OrderedDict()
        self._at = ("", "")

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a call. `unknown`: the caller has to send the schema or the policy, too."""
        self._at = ("", "")
        if call["do"] == "faults":
            found = [
                fault
                for field, node in call["schemas"]
                for fault in rule_faults.faults(node, field, begins=self.begins)
            ]
            return {"faults": [tuple(fault) for fault in found]}
        if call["do"] == "expressions":
            stated, variables = call["expressions"], call["variables"]
            found = admission_faults.faults(stated, variables, params=call["params"], begins=self.begins)
            return {"faults": [tuple(fault) for fault in found]}
        if call["do"] == "types":
            return {"warnings": type_warnings(**call["of"], begins=self.begins)}
        known = self._known(call)
        if known is None:
            return {"unknown": True}
        if isinstance(known, RuledNode):
            causes = violations(known, call["new"], call.get("old", MISSING), begins=self.begins)
            return {"causes": [(cause.reason, cause.message, cause.field) for cause in causes]}
        if call["do"] == "matched":
            return matched(known, call, self.begins)
        return {"answers": checked(known, call, call["params"], self.begins)}

    def begins(self, field: str, rule: str) -> None:
        """Report that a rule is run. A rule that runs again for the next item is reported once."""
        if (field, rule) != self._at:
            self._at = (field, rule)
            self.write({"at": self._at})

    def write(self, message: dict[str, Any]) -> None:
        write(self._out, orjson.dumps(message))

    def _known(self, call: dict[str, Any]) -> RuledNode | Expressions | None:
        """Return the compiled rules for a call; None: they are not known."""
        digest = call["digest"]
        if "schema" in call or "spec" in call:
            made = RuledNode(call["schema"], is_root=True) if "schema" in call else Expressions(call["spec"])
            self._compiled[digest] = made
            while len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        elif digest in self._compiled:
            self._compiled.move_to_end(digest)
        return self._compiled.get(digest)


def main() -> None:
    """Answer calls until the standard input ends. Arguments: seconds of processor time per call, bytes of memory."""
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    source, out = sys.stdin.buffer, sys.stdout.buffer
    limit(memory)
    answers = Answers(out)
    answers.write({"ready": True})
    while (call := read(source)) is not None:
        signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal ends this process, whatever it does
        try:
            found = answers.answer(call)
        except (ValueError, TypeError, RecursionError, MemoryError, RuntimeError) as error:
            found = {"error": str(error) or type(error).__name__}
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(found)


if __name__ == "__main__":
    main()
