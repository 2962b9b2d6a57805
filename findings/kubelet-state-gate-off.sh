#!/usr/bin/env bash
# Kubernetes 1.36.3, kubelet: a kubelet that has run once with the alpha gate
# PodLevelResourceManagers does not start any more when the gate is off again, even if no
# pod ever used the feature: the checksums of cpu_manager_state and memory_manager_state are
# then over another Go type, with a field more. The files have to be deleted, and the node
# drained before. The other way round, turning the gate on, works; and 1.37 reads both.
#
# Seen (the state packages of the kubelet, with a file that has no entry for a pod):
#   gate on:        starts
#   off afterwards: cpu_manager_state: could not restore state from checkpoint: json: cannot
#                   unmarshal object into Go struct field CPUManagerCheckpointV1.entries of
#                   type string, please drain this node and delete the CPU manager
#                   checkpoint file
#   off afterwards: memory_manager_state: could not restore state from checkpoint: checkpoint
#                   is corrupted, please drain this node ...
#   off, then on:   starts
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cpu "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memory "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// start reads the files of a directory, or makes them, as a kubelet does at its start.
func start(dir string, gate bool) (cpuErr, memoryErr error) {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"PodLevelResourceManagers": gate}); err != nil {
		panic(err)
	}
	c, cpuErr := cpu.NewCheckpointState(klog.Background(), dir, "cpu_manager_state", "static", containermap.NewContainerMap())
	if cpuErr == nil {
		c.SetDefaultCPUSet(cpuset.New(0, 3))
		c.SetCPUSet("uid", "container", cpuset.New(1, 2))
	}
	_, memoryErr = memory.NewCheckpointState(klog.Background(), dir, "memory_manager_state", "Static")
	return cpuErr, memoryErr
}

func main() {
	klog.LogToStderr(false)
	ok := true
	say := func(what string, starts bool, errs ...error) {
		for _, err := range errs {
			fmt.Printf("%s: %v\n", what, err)
			ok = ok && (err == nil) == starts
		}
	}
	for i, dir := range []string{"on-off", "off-on"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			panic(err)
		}
		c, m := start(dir, i == 0)
		say(dir+", first start", true, c, m)
		c, m = start(dir, i == 1)
		say(dir+", second start", i == 1, c, m)
	}
	if !ok {
		fmt.Println("the files are read otherwise than stated")
		os.Exit(1)
	}
}
GO
export GOFLAGS=-mod=mod GOWORK=off
{
	printf 'module example.com/state\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n\nreplace (\n'
	for m in api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap code-generator component-base \
		component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator \
		kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver \
		sample-cli-plugin sample-controller streaming; do
		printf '\tk8s.io/%s => k8s.io/%s v0.36.3\n' "$m" "$m"
	done
	printf ')\n'
} >go.mod
go mod tidy >/dev/null 2>&1 || { echo "the modules cannot be fetched" >&2; exit 2; }
go run . 2>/dev/null
