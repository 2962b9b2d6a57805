package cluster

import (
	"fmt"
	"strings"
)

// definition is that of a kind of OpenShift's, whose objects have a status of their own:
// a cluster of these tests has no OpenShift.
func definition(group, version, kind, scope, schema string) string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]ss.%[1]s}
spec:
  group: %[1]s
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[4]ss, singular: %[4]s}
  scope: %[5]s
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        %[6]s
`, group, version, kind, strings.ToLower(kind), scope, strings.ReplaceAll(strings.TrimSpace(schema), "\n", "\n        "))
}

const anything = "{type: object, x-kubernetes-preserve-unknown-fields: true}"

// machineConfigPool is the kind by which OpenShift's Machine Config Operator is known.
var machineConfigPool = definition("machineconfiguration.openshift.io", "v1", "MachineConfigPool", "Cluster", anything)

// machineKinds are the kinds of OpenShift's machines as far as fettle reads and writes
// them. The status of a check is strict, so that what fettle writes there is looked at.
var machineKinds = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-machine-api}
` + machineKind("Machine", `
type: object
properties:
  spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
  status:
    type: object
    properties:
      phase: {type: string}
      lastUpdated: {type: string, format: date-time}
      nodeRef:
        type: object
        properties: {kind: {type: string}, name: {type: string}}
`) + machineKind("MachineSet", `
type: object
properties:
  spec:
    type: object
    properties:
      replicas: {type: integer, minimum: 0, default: 1}
      selector: {type: object, x-kubernetes-preserve-unknown-fields: true}
      template: {type: object, x-kubernetes-preserve-unknown-fields: true}
  status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`) + machineKind("MachineHealthCheck", `
type: object
properties:
  spec:
    type: object
    required: [selector, unhealthyConditions]
    properties:
      selector: {type: object, x-kubernetes-preserve-unknown-fields: true}
      maxUnhealthy: {x-kubernetes-int-or-string: true}
      nodeStartupTimeout: {type: string}
      unhealthyConditions:
        type: array
        minItems: 1
        items:
          type: object
          required: [type, status, timeout]
          properties: {type: {type: string}, status: {type: string}, timeout: {type: string}}
  status:
    type: object
    required: [remediationsAllowed]
    properties:
      expectedMachines: {type: integer, minimum: 0}
      currentHealthy: {type: integer, minimum: 0}
      remediationsAllowed: {type: integer, format: int32, minimum: 0}
      conditions:
        type: array
        items:
          type: object
          required: [type, status, lastTransitionTime]
          properties:
            type: {type: string}
            status: {type: string, enum: ["True", "False", Unknown]}
            severity: {type: string}
            reason: {type: string}
            message: {type: string}
            lastTransitionTime: {type: string, format: date-time}
`) + definition("config.openshift.io", "v1", "ClusterVersion", "Cluster", anything)

func machineKind(kind, schema string) string {
	return definition("machine.openshift.io", "v1beta1", kind, "Namespaced", schema)
}
