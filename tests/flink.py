"""The failover guide's FlinkDeployment: the kind the users bring, and the job; for the simulator and the running
product."""

GROUP_VERSION = "flink.apache.org/v1beta1"
BINDING = "flink-app-flinkdeployment"
LABEL = "application.karmada.io/cluster-failover-jobid"  # what docs/examples/flink.yaml keeps the job's id in
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: flinkdeployments.flink.apache.org
spec:
  group: flink.apache.org
  scope: Namespaced
  names: {kind: FlinkDeployment, listKind: FlinkDeploymentList, plural: flinkdeployments, singular: flinkdeployment}
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
EVERYWHERE = """
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata:
  name: definitions
spec:
  resourceSelectors:
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: flinkdeployments.flink.apache.org}
  placement: {}
"""
APP = """
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata:
  name: flink-app
spec:
  image: flink:1.17
  flinkVersion: v1_17
  jobManager: {resource: {cpu: 1, memory: 2048m}}
  taskManager: {resource: {cpu: 1, memory: 2048m}}
  job: {jarURI: "local:///opt/flink/examples/streaming/StateMachineExample.jar", parallelism: 2, upgradeMode: savepoint}
"""
