// Package checksum computes the checksums in a kubelet's state files.
//
// A sum is computed from a dump of the Go value, which contains the names of types and
// packages. So this package, its type, and the types of package state have the names of those
// in k8s.io/kubernetes (pkg/kubelet/checkpointmanager/checksum, pkg/util/hash).
package checksum

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/dump"
)

// Checksum is the checksum in a file.
type Checksum uint64

// upstream replaces names of types of package state by the kubelet's, where two packages have a
// PodEntry.
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
