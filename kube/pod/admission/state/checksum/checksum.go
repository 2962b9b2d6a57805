// Package checksum tells whether a file of the kubelet is as the kubelet wrote it.
//
// The sum is that of a print of the Go value, in which the names of types and packages
// occur. So this package, its type, and the types of package state have the names of
// those in k8s.io/kubernetes (pkg/kubelet/checkpointmanager/checksum,
// pkg/util/hash).
package checksum

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/dump"
)

// Checksum is the sum that a file carries.
type Checksum uint64

// upstream gives types of package state the names that they have in the kubelet, where
// two packages have a PodEntry.
var upstream = strings.NewReplacer(
	"state.cpuManagerCheckpointV3", "state.CPUManagerCheckpoint",
	"state.podCPUAssignments", "state.PodCPUAssignments",
	"state.podCPUEntry", "state.PodEntry",
	"state.memoryManagerCheckpointV2", "state.MemoryManagerCheckpoint",
	"state.podMemoryAssignments", "state.PodMemoryAssignments",
	"state.podMemoryEntry", "state.PodEntry",
)

// Of is the sum of a value, in which the sum itself is 0.
func Of(value any) Checksum {
	print := dump.ForHash(value) //nolint:govet,staticcheck // test/admission has older modules, without k8s.io/utils/dump
	if _, text := value.(string); !text {
		print = upstream.Replace(print)
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", print)
	return Checksum(h.Sum32())
}
