"""Has questions to scripts and webhooks answered."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from apps.interpretation.lua_pool import LuaProcess
from apps.interpretation.webhooks import Webhooks
from controlplane.interpret.customized import Answer, Interpreters, Question, Script
from controlplane.settings import MemberSettings

log = logging.getLogger(__name__)

PATIENCE = 0.5  # seconds that a batch of decisions waits for answers; later ones are used when it is decided again
FAILURE_SECONDS = 10.0  # how long a failure of a webhook, or of a script that took too long, is remembered
WEBHOOK_SECONDS = 60.0  # how long an answer of a webhook is used; its server may change without notice
SLOW_SECONDS = 0.25  # a script that takes longer runs in the process for slow scripts from then on


class Interpretation:
    """Answers questions with two processes for scripts, one of them for slow scripts, and a thread for webhooks.

    A slow or broken rule delays only the objects of its kind. Threads may use it at the same time.
    """

    def __init__(self, interpreters: Interpreters, settings: MemberSettings) -> None:
        self._interpreters = interpreters
        self._lanes = {slow: (ThreadPoolExecutor(1, f"lua-{slow}"), LuaProcess()) for slow in (False, True)}
        self._webhooks = Webhooks(settings)
        self._slow: set[str] = set()  # texts of slow scripts
        self._tired: dict[str, tuple[float, Answer]] = {}  # scripts that took too long: until when they are not run
        self._pending: dict[str, Future[Any]] = {}
        self._expiring: dict[str, float] = {}
        self._lock = threading.RLock()
        atexit.register(self.close)

    def interpret(self, questions: Sequence[Question], *, patience: float = PATIENCE) -> bool:
        """Send questions, and wait at most `patience` seconds. Return whether the answer to one of them is known then.

        An answer that was known before counts too. One that takes longer is used when the object is decided again.
        """
        with self._lock:
            self._expire()
            new = [question for question in questions if question.key not in self._pending]
            self._send(question for question in new if not self._interpreters.knows(question))
            waited = {self._pending[question.key] for question in questions if question.key in self._pending}
        wait(waited, timeout=patience)
        return any(self._interpreters.knows(question) for question in questions)

    def close(self) -> None:
        """End all processes and threads."""
        for lane, process in self._lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)
            process.close()
        self._webhooks.close()

    def _send(self, questions: Iterable[Question]) -> None:
        batches: dict[bool, list[Question]] = {False: [], True: []}
        now = time.monotonic()
        for question in questions:
            if not isinstance(question.rule, Script):
                asked = self._webhooks.ask(question)
                self._pending[question.key] = asked
                asked.add_done_callback(partial(self._webhook_answered, question))
                continue
            until, answer = self._tired.get(question.rule.text, (0.0, Answer()))
            if now < until:
                self._learn(question, answer, seconds=until - now)
            else:
                batches[question.rule.text in self._slow].append(question)
        for slow, batch in batches.items():
            if batch:
                lane, process = self._lanes[slow]
                running = lane.submit(self._run, process, batch)
                self._pending.update((question.key, running) for question in batch)

    def _run(self, process: LuaProcess, batch: Sequence[Question]) -> None:
        """Run scripts one after the other and remember their answers. Runs in the thread of the process."""
        try:
            rest = list(batch)
            while rest:
                question = rest.pop(0)
                assert isinstance(question.rule, Script)
                began = time.monotonic()
                together = [question, *rest] if question.rule.text not in self._slow else [question]
                for asked, answer in zip(together, process.answers(together), strict=True):
                    took, began = time.monotonic() - began, time.monotonic()
                    self._script_answered(asked, answer, took)
                rest = rest[len(together) - 1 :]
        except Exception:
            log.exception("scripts could not be run; their objects are decided again later")
        finally:
            with self._lock:
                for question in batch:
                    self._pending.pop(question.key, None)

    def _script_answered(self, question: Question, answer: Answer, took: float) -> None:
        assert isinstance(question.rule, Script)
        with self._lock:
            if took > SLOW_SECONDS:
                self._slow.add(question.rule.text)
            seconds = 0.0
            if answer.error and took > SLOW_SECONDS:
                self._tired[question.rule.text] = time.monotonic() + FAILURE_SECONDS, answer
                seconds = FAILURE_SECONDS
            self._learn(question, answer, seconds=seconds)

    def _webhook_answered(self, question: Question, done: Future[Answer]) -> None:
        with self._lock:
            self._pending.pop(question.key, None)
            if not done.cancelled():
                answer = done.result()
                self._learn(question, answer, seconds=FAILURE_SECONDS if answer.error else WEBHOOK_SECONDS)

    def _learn(self, question: Question, answer: Answer, *, seconds: float) -> None:
        """Remember an answer. `seconds`: for how long; 0: as long as there is room."""
        self._interpreters.learn(question, answer)
        if seconds:
            self._expiring[question.key] = time.monotonic() + seconds

    def _expire(self) -> None:
        now = time.monotonic()
        over = [key for key, until in self._expiring.items() if until <= now]
        self._interpreters.forget(over)
        for key in over:
            del self._expiring[key]
        self._tired = {text: entry for text, entry in self._tired.items() if now < entry[0]}
