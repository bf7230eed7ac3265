"""Names of derived objects."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import names

Document = dict[str, Any]


def run(given: Document) -> Document:
    match given["op"]:
        case "workName":
            return {"result": names.work_name(given["kind"], given["name"], given.get("namespace", ""))}
        case "bindingName":
            return {"result": names.binding_name(given["kind"], given["name"])}
        case "isReservedNamespace":
            return {"result": names.is_reserved_namespace(given["namespace"])}
        case "clusterNameFromExecutionSpace":
            try:
                return {"result": names.cluster_of_execution_namespace(given["namespace"])}
            except names.ForeignNamespace as error:
                return {"error": str(error)}
        case "derived":
            cluster = given["clusterName"]
            return {
                "derivedService": names.derived_service_name(given["serviceName"]),
                "endpointSlice": names.imported_endpoint_slice_name(cluster, given["endpointSliceName"]),
                "executionSpace": names.execution_namespace(cluster),
                "impersonationSecret": names.impersonation_secret_name(cluster),
                "serviceAccount": names.service_account_name(cluster),
            }
    raise AssertionError(f"unknown operation {given['op']}")


def agree(expect: Document, result: Document) -> bool:
    return "error" in result if "error" in expect else result == expect
