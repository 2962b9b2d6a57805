package admission

import (
	"fmt"
	"testing"
	"time"
)

// large is a machine with 256 CPUs on eight NUMA nodes and everything that makes a prediction slow:
// huge pages, devices, pods with CPUs and memory, and several containers.
func large(policy string) Input {
	n := machine(2, 4, 16, 2)
	in := Input{Node: n, Settings: withMemory(static(policy))}
	var busy []string
	for i := range 24 {
		busy = append(busy, fmt.Sprintf("%d,%d", 1+i*5, 129+i*5))
	}
	in.State = held(n, busy...)
	for i := range in.Node.NUMA {
		in.Node.NUMA[i].HugePages[0].Pages = 512
	}
	for _, name := range []string{"example.com/nic", "example.com/gpu"} {
		r := DeviceResource{Name: name}
		for i := range 8 {
			r.Devices = append(r.Devices, Device{ID: fmt.Sprint(name, i), NUMA: []int{i}})
		}
		in.Devices = append(in.Devices, r)
	}
	in.Pod = pod(
		guaranteed("a", "cpu=30 memory=20Gi hugepages-2Mi=512Mi example.com/nic=1 example.com/gpu=1"),
		guaranteed("b", "cpu=8 memory=1Gi"),
		guaranteed("c", "cpu=1 memory=1Gi"),
	)
	in.Pod.Init = []Container{guaranteed("i", "cpu=4 memory=2Gi")}
	return in
}

// BenchmarkPredict predicts on 256 CPUs and eight NUMA nodes, including advice: it takes less than
// 50 ms.
func BenchmarkPredict(b *testing.B) {
	for _, policy := range []string{PolicyNone, PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode} {
		for _, options := range []string{"", "distribute-cpus-across-numa", "full-pcpus-only", "prefer-align-cpus-by-uncorecache"} {
			b.Run(policy+"/"+options, func(b *testing.B) {
				b.ReportAllocs()
				best := time.Hour // what else the machine does takes no part
				for b.Loop() {
					start := time.Now()
					in := large(policy)
					if options != "" {
						in.Settings.CPUManagerPolicyOptions = map[string]string{options: "true"}
					}
					if _, err := Predict(in); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(start))
				}
				if best > 50*time.Millisecond {
					b.Errorf("a prediction takes %v", best)
				}
			})
		}
	}
}
