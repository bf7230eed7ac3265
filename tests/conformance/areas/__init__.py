"""Which areas can be checked, and by which module; each is imported only when its vectors are."""

AREAS = {
    "app_failover": "tests.conformance.areas.app_failover",
    "binding_build": "tests.conformance.areas.binding_build",
    "binding_status": "tests.conformance.areas.binding_status",
    "cluster_affinity": "tests.conformance.areas.cluster_affinity",
    "estimator": "tests.conformance.areas.estimator",
    "graceful_eviction": "tests.conformance.areas.graceful_eviction",
    "interpreter": "tests.conformance.areas.interpreter",
    "jsonpath": "tests.conformance.areas.jsonpath",
    "modeling": "tests.conformance.areas.modeling",
    "names": "tests.conformance.areas.names",
    "policy_match": "tests.conformance.areas.policy_match",
    "quantity": "tests.conformance.areas.quantity",
    "schedule": "tests.conformance.areas.schedule",
    "schedule_gates": "tests.conformance.areas.schedule",
    "schedule_trigger": "tests.conformance.areas.schedule_trigger",
    "taintpolicy": "tests.conformance.areas.taintpolicy",
    "tolerations": "tests.conformance.areas.tolerations",
    "webhook": "tests.conformance.areas.webhook",
    "webster": "tests.conformance.areas.webster",
    "work_render": "tests.conformance.areas.work_render",
}
