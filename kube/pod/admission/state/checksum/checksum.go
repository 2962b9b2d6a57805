// Package checksum computes the checksums in a kubelet's state files.
//
// The checksum is computed from a dump of the Go value, which contains type and package names. This
// package, its type, and the types of package state therefore have the names in k8s.io/kubernetes
// (pkg/kubelet/checkpointmanager/checksum, pkg/util/hash).
package checksum

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/dump"
)

// Checksum is the checksum in a file.
type Checksum uint64

// upstream replaces type names of package state with the kubelet's, because the kubelet has a
// PodEntry in two packages.
var upstream = strings.NewReplacer(
	"state.cpuManagerCheckpointV3", "state.CPUManagerCheckpoint",
	"state.podCPUAssignments", "state.PodCPUAssignments",
	"state.podCPUEntry", "state.PodEntry",
	"state.memoryManagerCheckpointV2", "state.MemoryManagerCheckpoint",
	"state.podMemoryAssignments", "state.PodMemoryAssignments",
	"state.podMemoryEntry", "state.PodEntry",
)

// Of returns the checksum of a value whose own checksum field is 0.
func Of(value any) Checksum {
	print := dump.ForHash(value) //nolint:govet,staticcheck // test/admission has older modules, without k8s.io/utils/dump
	if _, text := value.(string); !text {
		print = upstream.Replace(print)
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", print)
	return Checksum(h.Sum32())
}
