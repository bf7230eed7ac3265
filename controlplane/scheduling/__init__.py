"""Where a workload runs: filter, score, select clusters, assign replicas. Pure; one question for many bindings."""
