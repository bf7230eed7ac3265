"""Scripts run in processes of their own, with limits, and mean what they mean in Karmada [resource-interpreter]."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from apps.interpretation.lua_pool import LuaProcess
from apps.interpretation.lua_values import with_shapes
from apps.interpretation.rule_answers import Interpretation
from controlplane.interpret.customized import Answer, Interpreters, Question, Script
from controlplane.interpret.interpreter import NO_OPERATIONS
from controlplane.settings import MemberSettings

HEALTHY = "function InterpretHealth(object) return object.ready == true end"
ENDLESS = "function InterpretHealth(object) while true do end end"
STUBBORN = "function InterpretHealth(object) while true do pcall(function() while true do end end) end end"
GREEDY = 'function InterpretHealth(object) return #("x"):rep(2^30) > 0 end'
DOC = {"spec": {"replicas": 3, "empty": {}, "none": [], "null": None}}


@pytest.fixture(scope="module")
def process() -> Iterator[LuaProcess]:
    made = LuaProcess(seconds=0.2)
    yield made
    made.close()


def question(text: str, *arguments: Any, operation: str = "InterpretHealth") -> Question:
    return Question(Script("c", operation, text), json.dumps(arguments).encode(), f"{text} {arguments}")


def result(process: LuaProcess, text: str, *arguments: Any, operation: str = "InterpretHealth") -> Answer:
    (answer,) = process.answers([question(text, *arguments, operation=operation)])
    return answer


def returned(process: LuaProcess, expression: str) -> Any:
    answer = result(process, f"function InterpretHealth(object) return {expression} end", DOC)
    return answer.values[0] if answer.values else answer.error


@pytest.mark.parametrize("text", [ENDLESS, STUBBORN, GREEDY], ids=["endless", "stubborn", "greedy"])
def test_a_script_that_does_not_end_or_takes_all_memory_costs_only_its_own_answer(
    process: LuaProcess, text: str
) -> None:
    before, broken, after = process.answers(
        [question(HEALTHY, {"ready": True}), question(text, {}), question(HEALTHY, {"ready": False})]
    )

    assert before.values == (True,)
    assert broken.error
    assert after.values == (False,)


@pytest.mark.parametrize(
    "expression",
    [
        *("io", "debug", "package", "python", "coroutine", "os.execute", "os.getenv", "os.remove", "string.rep.x"),
        *("_G.io", "_G._G.debug", "math.random.__class__"),
    ],
)
def test_a_script_reaches_nothing_of_the_host(process: LuaProcess, expression: str) -> None:
    answer = returned(process, expression)

    assert answer is None or "attempt to index" in answer


@pytest.mark.parametrize(
    "call",
    [
        'load("return 1")', 'loadstring("return 1")', 'dofile("x")', "getmetatable({})", "setmetatable({}, {})",
        "rawget({}, 1)", "getfenv()", "setfenv(1, {})", "collectgarbage()", "newproxy()", "string.dump(print)",
        '(""):dump()', 'require("os")', "rawset({}, 1, 1)",
    ],
)  # fmt: skip
def test_functions_that_leave_the_sandbox_are_refused(process: LuaProcess, call: str) -> None:
    assert "is not available to scripts" in returned(process, call) or "there is no library" in returned(process, call)


def test_a_script_cannot_change_what_another_script_sees(process: LuaProcess) -> None:
    spoil = "type = 'x' error = 'y' function InterpretHealth() _G.tostring = nil return true end"
    change = "function InterpretHealth() string.upper = nil end"

    assert result(process, spoil, DOC).values == (True,)
    assert "libraries cannot be changed" in result(process, change, DOC).error
    assert returned(process, 'type(tostring(1)) .. ("a"):upper()') == "stringA"


@pytest.mark.parametrize(
    "text",
    [
        "big = {} function InterpretHealth() for i = 1, 100 do big[i] = (i .. 'x'):rep(4e5) end return true end",
        "function InterpretHealth() local big = {} for i = 1, 300 do big[i] = (i .. 'x'):rep(4e5) end end",
    ],
    ids=["keeps", "wants-more"],
)
def test_memory_that_a_script_has_used_is_free_for_the_next_one(process: LuaProcess, text: str) -> None:
    large = "function InterpretHealth() return #('y'):rep(50 * 2^20) > 0 end"
    assert result(process, large).values == (True,)

    result(process, text)

    assert result(process, large).values == (True,)


def test_an_error_names_the_line(process: LuaProcess) -> None:
    text = "function InterpretHealth(object)\n  local status = object.status\n  return status.ready\nend"

    assert result(process, text, DOC).error.startswith("script:3: attempt to index local 'status'")
    assert "script:1:" in result(process, "function InterpretHealth(", DOC).error
    assert "no function InterpretHealth" in result(process, "function Other() end", DOC).error


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("object.spec.replicas / 2", 1.5),
        ("object.spec.replicas * 2", 6),
        ("object.spec.null", None),
        ("#object.spec.none", 0),
        ("{1, 2}", [1, 2]),
        ("{a = {1}}", {"a": [1]}),
        ("2^53", 2**53),
        ("-2^62", -(2**62)),
        ("1e20", 1e20),
        ("-2^64", -(2.0**64)),
        ('require("kube").resourceAdd("1", "500m", nil)', "1500m"),
        ('require("kube").getResourceQuantity("2048m")', 2.048),
        ('require("kube").getResourceQuantity(nil)', 0),
        (
            'require("kube").accuratePodRequirements({spec = {containers = {{resources = {limits = {cpu = 2}}}}}})',
            {"resourceRequest": {"cpu": "2"}},
        ),
        ('require("kube").accuratePodRequirements({spec = {containers = {{name = "c"}}}})', None),
        (
            'require("kube").getPodDependencies({spec = {serviceAccountName = "a"}}, nil)',
            [{"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "default", "name": "a"}],
        ),
    ],
)
def test_values_are_converted_as_karmada_converts_them(process: LuaProcess, expression: str, expected: Any) -> None:
    assert returned(process, expression) == expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("{1, a = 2}", "keys of several types"),
        ("{[1] = 1, [3] = 3}", "has gaps"),
        ("print", "contains a function"),
        ("0/0", "which JSON does not have"),
        ("{1, -1/0}", "contains the number -inf"),
        ('require("kube").resourceAdd("much")', "not a quantity"),
        ('require("kube").getResourceQuantity("-1")', "is negative"),
        ('require("kube").getResourceQuantity()', "accepts 1 argument, not 0"),
        ("(function() local t = {} t.t = t return t end)()", "does a table contain itself"),
    ],
)
def test_a_value_that_json_does_not_have_is_an_error(process: LuaProcess, expression: str, why: str) -> None:
    assert why in returned(process, expression)


def test_empty_tables_keep_the_shape_that_the_object_had(process: LuaProcess) -> None:
    text = "function ReviseReplica(object, count) object.spec.replicas = count object.spec.new = {} return object end"

    (answer,) = process.answers([question(text, DOC, 7, operation="ReviseReplica")])

    assert answer.values == ({"spec": {"replicas": 7, "empty": {}, "none": []}},)
    assert with_shapes({"a": [[], {"b": []}]}, [{"a": [{}, {"b": {}}]}]) == {"a": [{}, {"b": {}}]}


def test_a_slow_script_does_not_hold_up_the_answers_of_others() -> None:
    known = Interpreters({}, NO_OPERATIONS)
    service = Interpretation(known, MemberSettings())
    try:
        service.interpret([question(ENDLESS, {"n": 0})], patience=30)  # from now on it is known to be slow
        stuck = [question(STUBBORN, {"n": n}) for n in range(3)]
        service.interpret([question(STUBBORN, {"first": True})], patience=30)
        service.interpret(stuck, patience=0)

        began = time.monotonic()
        assert service.interpret([question(HEALTHY, {"ready": True})], patience=20)

        assert time.monotonic() - began < 3
    finally:
        service.close()


def test_a_script_that_is_seen_to_be_slow_for_the_first_time_holds_up_no_others_either() -> None:
    """A user changes a script, and all objects of its kind are asked about at once."""
    known = Interpreters({}, NO_OPERATIONS)
    service = Interpretation(known, MemberSettings())
    stuck = [question(ENDLESS, {"n": n}) for n in range(20)]
    try:
        service.interpret([question(f"-- first\n{HEALTHY}", {})], patience=30)
        began = time.monotonic()
        service.interpret([*stuck, question(HEALTHY, {"ready": True})], patience=0)

        assert service.interpret([question(HEALTHY, {"ready": False})], patience=12)
        assert service.interpret([question(HEALTHY, {"ready": True})], patience=12)
        assert service.interpret(stuck[-1:], patience=12), "a script that took too long is not run again for 10 s"
        assert time.monotonic() - began < 12
    finally:
        service.close()


class Learning(Interpreters):
    """Interpreters that show what they have learned."""

    def __init__(self) -> None:
        super().__init__({}, NO_OPERATIONS)
        self.learned: dict[str, Answer] = {}

    def learn(self, question: Question, answer: Answer) -> None:
        super().learn(question, answer)
        self.learned[question.key] = answer


def test_an_object_for_which_a_script_does_not_end_keeps_no_other_object_of_its_kind_from_an_answer() -> None:
    """They are asked about together, again and again, and the one may always be the first."""
    text = "function InterpretHealth(object) while object.n == 0 do end return true end"
    known = Learning()
    service = Interpretation(known, MemberSettings())
    odd, *others = [question(text, {"n": n}) for n in range(5)]
    try:
        service.interpret([odd, *others], patience=0)
        assert service.interpret(others[-1:], patience=12)

        assert [known.learned[one.key].values for one in others] == [(True,)] * 4
        assert "processor time" in known.learned[odd.key].error
    finally:
        service.close()
