"""Rules of users come before what is known of a kind, and decisions wait for their answers [resource-interpreter]."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane import interpret
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.controllers.template_status import TemplateStatus, TemplateStatusSnapshot
from controlplane.engine.run import put_off, questions_of
from controlplane.interpret.customized import (
    Answer,
    InterpretationFailed,
    Interpreters,
    Question,
    Script,
    Unanswered,
    for_each,
)
from controlplane.interpret.interpreter import NO_OPERATIONS, Dependency
from controlplane.interpret.native import NATIVE
from controlplane.kinds.binding import AggregatedStatusItem, ReplicaRequirements, TargetCluster
from controlplane.kinds.interpreter_customization import (
    CustomizationRules,
    CustomizationSpec,
    CustomizationTarget,
    InterpreterCustomization,
    LuaRule,
    validate,
)
from controlplane.kinds.interpreter_webhook import ClientConfig, InterpreterWebhooks, Webhook, WebhookRule
from controlplane.kinds.interpreter_webhook import validate as validate_webhooks
from controlplane.propagation import bindings, works
from controlplane.settings import Settings
from tests.builders.objects import policy
from tests.builders.templates import deployment

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOC = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
API = "config.karmada.io/v1alpha1"
DEPLOYMENT = ("apps/v1", "Deployment")
SECRETS = {"apiVersion": "v1", "kind": "Secret", "namespace": "default"}


def customization(name: str, **scripts: str) -> InterpreterCustomization:
    rules = CustomizationRules(**{field: LuaRule(text) for field, text in scripts.items()})
    target = CustomizationTarget(*DEPLOYMENT)
    return InterpreterCustomization(
        API, "ResourceInterpreterCustomization", metadata=ObjectMeta(name=name), spec=CustomizationSpec(target, rules)
    )


def webhook(*operations: str, kinds: tuple[str, ...] = ("Deployment",)) -> Webhook:
    rule = WebhookRule(operations, ("apps",), ("v1",), kinds)
    config = ClientConfig(url="https://hooks.example.com/deployments")
    return Webhook("deployments.example.com", config, (rule,), None, ("v1alpha1",))


def interpreters(*customizations: InterpreterCustomization, hooks: tuple[Webhook, ...] = ()) -> Interpreters:
    made = Interpreters(NATIVE, NO_OPERATIONS)
    made.set_rules(customizations, [("hooks", hook) for hook in hooks])
    return made


def asked(knows: Interpreters, rule: str, *arguments: Any) -> tuple[Question, ...]:
    with pytest.raises(Unanswered) as raised:
        getattr(knows.of(*DEPLOYMENT), rule)(*arguments)
    return raised.value.questions


def answered(knows: Interpreters, rule: str, *arguments: Any, values: tuple[Any, ...] = (), error: str = "") -> Any:
    """Return the result of a rule whose questions all get this answer."""
    for question in asked(knows, rule, *arguments):
        knows.learn(question, Answer(values, error))
    return getattr(knows.of(*DEPLOYMENT), rule)(*arguments)


def test_a_kind_without_rules_of_users_costs_nothing_more() -> None:
    knows = interpreters(customization("c", health_interpretation="…"))

    assert knows.of("apps/v1", "StatefulSet") is NATIVE["apps/v1", "StatefulSet"]
    assert knows.of("example.com/v1", "Thing") is NO_OPERATIONS


def test_a_script_replaces_one_operation_and_leaves_the_others() -> None:
    knows = interpreters(customization("c", health_interpretation="…"))

    found = knows.of(*DEPLOYMENT)

    assert found.replicas is NATIVE[DEPLOYMENT].replicas
    assert answered(knows, "healthy", DOC, values=(False,)) is False


def test_a_script_comes_before_a_webhook_and_a_webhook_before_what_is_known() -> None:
    knows = interpreters(
        customization("c", health_interpretation="…"), hooks=(webhook("InterpretHealth", "InterpretReplica"),)
    )

    (by_script,) = asked(knows, "healthy", DOC)
    (by_webhook,) = asked(knows, "replicas", DOC)

    assert isinstance(by_script.rule, Script)
    assert by_webhook.rule.shown == "webhook deployments.example.com of hooks"


def test_a_webhook_for_all_kinds_covers_kinds_that_nothing_is_known_of() -> None:
    hook = Webhook("all.example.com", ClientConfig(url="https://h"), (WebhookRule(("*",), ("*",), ("*",), ("*",)),))
    knows = interpreters(hooks=(hook,))

    assert knows.of("example.com/v1", "Thing").healthy is not None


@pytest.mark.parametrize(
    ("rule", "arguments", "values", "expected"),
    [
        ("replicas", (DOC,), (3, None), (3, None)),
        (
            "replicas",
            (DOC,),
            (2, {"resourceRequest": {"cpu": 1, "memory": "1Gi"}, "nodeClaim": []}),
            (2, ReplicaRequirements(resource_request={"cpu": "1", "memory": "1Gi"}, namespace="default")),
        ),
        ("revise", (DOC, 4), ({**DOC, "spec": {"replicas": 4}},), {**DOC, "spec": {"replicas": 4}}),
        ("reflect", (DOC,), ([],), {}),
        ("aggregate", (DOC, [AggregatedStatusItem("m")], NOW), ({**DOC, "status": {"a": 1}},), {"a": 1}),
        (
            "dependencies",
            (DOC,),
            ([{"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "default"}],),
            [Dependency("v1", "Secret", "default", "s")],
        ),
    ],
)
def test_results_become_values(rule: str, arguments: tuple[Any, ...], values: tuple[Any, ...], expected: Any) -> None:
    fields = ("replica_resource", "replica_revision", "status_reflection", "status_aggregation")
    knows = interpreters(customization("c", **dict.fromkeys((*fields, "dependency_interpretation"), "…")))

    assert answered(knows, rule, *arguments, values=values) == expected


@pytest.mark.parametrize(
    ("rule", "arguments", "values", "why"),
    [
        ("replicas", (DOC,), ("3",), "number of replicas"),
        ("replicas", (DOC,), (-1,), "-1 is not between"),
        ("healthy", (DOC,), (None,), "true or false, not nothing"),
        ("revise", (DOC, 4), ({**DOC, "kind": "Secret"},), "must be the same"),
        ("revise", (DOC, 4), (None,), "must be the object"),
        ("dependencies", (DOC,), ([{"kind": "Secret"}],), "apiVersion and kind"),
        ("dependencies", (DOC,), ([{"apiVersion": "v1", "kind": "Secret"}],), "a name or a labelSelector"),
        ("dependencies", (DOC,), ([{**SECRETS, "labelSelector": {"matchLabels": {"tier": 1}}}],), "Expected `str`"),
        ("dependencies", (DOC,), ([{**SECRETS, "labelSelector": {"matchLabels": {"a b": "c"}}}],), "a b"),
        ("replicas", (DOC,), (3, [{"cpu": "1"}]), "must be a table"),
    ],
)
def test_a_result_that_cannot_be_used_names_its_rule(
    rule: str, arguments: tuple[Any, ...], values: tuple[Any, ...], why: str
) -> None:
    fields = ("replica_resource", "replica_revision", "health_interpretation", "dependency_interpretation")
    knows = interpreters(customization("broken", **dict.fromkeys(fields, "…")))

    with pytest.raises(InterpretationFailed, match=f"customization broken failed: .*{why}"):
        answered(knows, rule, *arguments, values=values)


def test_scripts_for_dependencies_of_several_customizations_all_count() -> None:
    knows = interpreters(
        customization("a", dependency_interpretation="1"), customization("b", dependency_interpretation="2")
    )

    first, second = asked(knows, "dependencies", DOC)
    for question, name in ((first, "x"), (second, "y")):
        knows.learn(question, Answer(([{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],)))
    rule = knows.of(*DEPLOYMENT).dependencies

    assert rule is not None
    assert [need.name for need in rule(DOC)] == ["x", "y"]


def test_an_edited_script_is_another_question() -> None:
    knows = interpreters(customization("c", health_interpretation="old"))
    assert answered(knows, "healthy", DOC, values=(True,)) is True

    knows.set_rules([customization("c", health_interpretation="new")])

    asked(knows, "healthy", DOC)


def test_answers_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.interpret.customized.REMEMBERED_BYTES", 1000)
    knows = interpreters(customization("c", health_interpretation="…"))

    for number in range(100):
        answered(knows, "healthy", {**DOC, "number": number}, values=(True,))

    assert len(asked(knows, "healthy", {**DOC, "number": 0})) == 1


def test_one_object_whose_rule_fails_does_not_hide_the_others() -> None:
    def rule(number: int) -> int:
        if number == 1:
            raise ValueError("broken")
        return number

    found = for_each(rule, [0, 1, 2])

    assert found[0] == 0
    assert isinstance(found[1], ValueError)
    assert found[2] == 2


def test_a_failed_rule_is_an_event_and_a_missing_answer_is_not() -> None:
    script = Script("c", "InterpretReplica", "…")
    template = deployment("web")

    failed = put_off(InterpretationFailed(script, "script:3: attempt to index"), template, now=NOW)
    waiting = put_off(Unanswered([Question(script, b"[]", "k")]), template, now=NOW)

    (event,) = failed.events
    assert event.reason == "GetReplicasFailed"
    assert "InterpretReplica by customization c failed: script:3: attempt to index" in event.message
    assert not waiting.events
    assert waiting.wake_at is not None


def test_questions_of_a_batch_are_asked_once() -> None:
    question = Question(Script("c", "Retain", "…"), b"[]", "k")

    assert questions_of([Unanswered([question]), ValueError(), Unanswered([question])]) == [question]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (CustomizationSpec(CustomizationTarget("", "Deployment")), "spec.target.apiVersion"),
        (CustomizationSpec(CustomizationTarget("a/b/c", "Deployment")), "spec.target.apiVersion"),
        (CustomizationSpec(CustomizationTarget("apps/v1", "")), "spec.target.kind"),
        (
            CustomizationSpec(CustomizationTarget("apps/v1", "Deployment"), CustomizationRules(retention=LuaRule())),
            "spec.customizations.retention.luaScript",
        ),
        (
            CustomizationSpec(
                CustomizationTarget("apps/v1", "Deployment"),
                CustomizationRules(replica_revision=LuaRule("x" * 300_000)),
            ),
            "spec.customizations.replicaRevision.luaScript",
        ),
    ],
)
def test_a_customization_that_cannot_work_is_refused(spec: CustomizationSpec, field: str) -> None:
    causes = validate(InterpreterCustomization(API, "ResourceInterpreterCustomization", spec=spec), None, Settings())

    assert [cause.field for cause in causes] == [field]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"timeout_seconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"client_config": ClientConfig()}, "webhooks[0].clientConfig"),
        ({"client_config": ClientConfig(url="http://h/p")}, "webhooks[0].clientConfig.url"),
        ({"client_config": ClientConfig(url="https://u@h/p")}, "webhooks[0].clientConfig.url"),
        ({"client_config": ClientConfig(url="https://h", ca_bundle="!")}, "webhooks[0].clientConfig.caBundle"),
        ({"interpreter_context_versions": ()}, "webhooks[0].interpreterContextVersions"),
        ({"interpreter_context_versions": ("v2",)}, "webhooks[0].interpreterContextVersions"),
        ({"rules": (WebhookRule((), ("a",), ("v1",), ("K",)),)}, "webhooks[0].rules[0].operations"),
        ({"rules": (WebhookRule(("Explode",), ("a",), ("v1",), ("K",)),)}, "webhooks[0].rules[0].operations[0]"),
        ({"rules": (WebhookRule(("*", "Retain"), ("a",), ("v1",), ("K",)),)}, "webhooks[0].rules[0].operations"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused(changes: dict[str, Any], field: str) -> None:
    valid = webhook("InterpretHealth")
    fields = {name: getattr(valid, name) for name in valid.__struct_fields__}

    assert (
        validate_webhooks(
            InterpreterWebhooks(API, "ResourceInterpreterWebhookConfiguration", webhooks=(valid,)), None, Settings()
        )
        == []
    )
    causes = validate_webhooks(
        InterpreterWebhooks(
            API, "ResourceInterpreterWebhookConfiguration", webhooks=(Webhook(**{**fields, **changes}),)
        ),
        None,
        Settings(),
    )

    assert [cause.field for cause in causes] == [field]


def test_the_rules_of_this_process_start_without_any_of_users() -> None:
    assert interpret.interpreter_for("apps/v1", "Deployment") is NATIVE[DEPLOYMENT]


@pytest.fixture
def _scripts_of_deployments() -> Iterator[None]:
    interpret.INTERPRETERS.set_rules([customization("c", status_aggregation="…", replica_revision="…")])
    yield
    interpret.INTERPRETERS.set_rules([])


@pytest.mark.usefixtures("_scripts_of_deployments")
def test_a_script_gets_the_whole_object() -> None:
    """It fails where it reads a label, an annotation or a field beside the spec that is left out."""
    web = deployment(labels={"tier": "front"}, annotations={"scale": "2"})
    web = web.with_content({**web.content, "extra": 1})
    binding = bindings.create(web, policy(), gates={}, now=NOW).with_status(
        aggregated_status=(AggregatedStatusItem("member1", status={"replicas": 1}),)
    )

    with pytest.raises(Unanswered) as aggregating:
        TemplateStatus().decide(TemplateStatusSnapshot(web, binding), Settings(), now=NOW)
    with pytest.raises(Unanswered) as revising:
        works.render(works.rendering(binding, web), TargetCluster("member1", 1), now=NOW)

    for raised in (aggregating, revising):
        (question,) = raised.value.questions
        doc = msgspec.json.decode(question.arguments)[0]
        assert doc["metadata"]["labels"] == {"tier": "front"}
        assert doc["metadata"]["annotations"]["scale"] == "2"
        assert doc["extra"] == 1
