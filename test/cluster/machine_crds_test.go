package cluster

// machineKinds are the kinds of OpenShift's machines as far as fettle reads and writes
// them, written for these tests: a cluster of these tests has no OpenShift. The status of
// a check is strict, so that what fettle writes there is looked at.
const machineKinds = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-machine-api}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.machine.openshift.io}
spec:
  group: machine.openshift.io
  names: {kind: Machine, listKind: MachineList, plural: machines, singular: machine}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
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
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machinesets.machine.openshift.io}
spec:
  group: machine.openshift.io
  names: {kind: MachineSet, listKind: MachineSetList, plural: machinesets, singular: machineset}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              replicas: {type: integer, minimum: 0, default: 1}
              selector: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machinehealthchecks.machine.openshift.io}
spec:
  group: machine.openshift.io
  names: {kind: MachineHealthCheck, listKind: MachineHealthCheckList, plural: machinehealthchecks, singular: machinehealthcheck}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
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
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec:
  group: config.openshift.io
  names: {kind: ClusterVersion, listKind: ClusterVersionList, plural: clusterversions, singular: clusterversion}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
