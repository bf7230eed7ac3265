"""Has questions to scripts and webhooks answered."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import Counter
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

EXHAUSTED = 3  # calls in succession that took too long: then the others that wait for the script are not run either


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
        self._exhausted = Counter[str]()  # scripts: how many calls one after the other took too long
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
        ends, waited = time.monotonic() + patience, set[Future[Any]]()
        while running := self._running(questions) - waited:  # others: a script was found to be slow meanwhile
            wait(running, timeout=max(ends - time.monotonic(), 0))
            waited |= running
        return any(self._interpreters.knows(question) for question in questions)

    def _running(self, questions: Sequence[Question]) -> set[Future[Any]]:
        with self._lock:
            return {self._pending[question.key] for question in questions if question.key in self._pending}

    def close(self) -> None:
        """End all processes and threads."""
        for lane, process in self._lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)
            process.close()
        self._webhooks.close()

    def _send(self, questions: Iterable[Question]) -> None:
        batches: dict[bool, list[Question]] = {False: [], True: []}
        for question in questions:
            if not isinstance(question.rule, Script):
                asked = self._webhooks.ask(question)
                self._pending[question.key] = asked
                asked.add_done_callback(partial(self._webhook_answered, question))
                continue
            if not self._is_tired(question):
                batches[self._is_slow(question)].append(question)
        for slow, batch in batches.items():
            if batch:
                self._submit(batch, slow=slow)

    def _submit(self, batch: Sequence[Question], *, slow: bool) -> None:
        running = self._lanes[slow][0].submit(self._run, batch, slow=slow)
        self._pending.update((question.key, running) for question in batch)

    def _is_tired(self, question: Question) -> bool:
        """Test whether the script of a question took too long a moment ago. Then the answer is that it does."""
        now = time.monotonic()
        with self._lock:
            until, answer = self._tired.get(_text(question), (0.0, Answer()))
            if now < until:
                self._learn(question, answer, seconds=until - now)
        return now < until

    def _run(self, batch: Sequence[Question], *, slow: bool) -> None:
        """Run scripts one after the other and remember their answers. Runs in the thread of a process.

        Scripts that turn out to be slow go on in the process for them, so that they hold up no others.
        """
        rest, own = list(batch), {question.key for question in batch}
        try:
            while rest:
                rest = rest[self._run_some(rest, slow=slow) :]
                if not slow and (late := [question for question in rest if self._is_slow(question)]):
                    with self._lock:
                        self._submit(late, slow=True)
                    own -= {question.key for question in late}
                    rest = [question for question in rest if question.key in own]
        except Exception:
            log.exception("scripts could not be run; their objects are decided again later")
        finally:
            with self._lock:
                for key in own:
                    self._pending.pop(key, None)

    def _run_some(self, questions: Sequence[Question], *, slow: bool) -> int:
        """Answer questions from the first on, and return how many: one of a slow script, and others until one is slow.

        A slow script is still run for the other objects after it took too long for one, unless it does so for each.
        A process that starts takes its time as well, which is no time of a script.
        """
        if slow and self._is_exhausted(questions[0]):
            return 1
        process, done = self._lanes[slow][1], 0
        process.start()
        began = time.monotonic()
        for asked, answer in zip(questions, process.answers(questions[:1] if slow else questions), strict=False):
            took, began = time.monotonic() - began, time.monotonic()
            self._script_answered(asked, answer, took)
            done += 1
            if not slow and self._is_slow(asked):
                process.close()  # it has got calls in advance
            if not process.has_started:
                break
        return done

    def _is_exhausted(self, question: Question) -> bool:
        """Test whether a script took too long in several calls in succession, and answer that it does."""
        text = _text(question)
        if self._exhausted[text] < EXHAUSTED:
            return False
        if self._is_tired(question):
            return True
        del self._exhausted[text]  # it has rested
        return False

    def _is_slow(self, question: Question) -> bool:
        return _text(question) in self._slow

    def _script_answered(self, question: Question, answer: Answer, took: float) -> None:
        text, seconds = _text(question), 0.0
        with self._lock:
            if took > SLOW_SECONDS:
                self._slow.add(text)
            if answer.error and took > SLOW_SECONDS:
                self._tired[text] = time.monotonic() + FAILURE_SECONDS, answer
                self._exhausted[text] += 1
                seconds = FAILURE_SECONDS
            else:
                self._exhausted.pop(text, None)
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


def _text(question: Question) -> str:
    """Return the script of a question."""
    assert isinstance(question.rule, Script)
    return question.rule.text
