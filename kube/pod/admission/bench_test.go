package admission

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// large is a machine with 256 CPUs on eight NUMA nodes with everything that makes a
// prediction long: huge pages, devices, pods with CPUs and memory, and several
// containers.
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

// processorTime is what this thread has used of a processor, so that a busy machine
// does not count.
func processorTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A prediction on 256 CPUs and eight NUMA nodes takes less than 50 ms of a processor,
// advice included.
func TestFast(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, policy := range []string{PolicyNone, PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode} {
		for _, options := range []string{"", "distribute-cpus-across-numa", "full-pcpus-only", "prefer-align-cpus-by-uncorecache"} {
			in := large(policy)
			if options != "" {
				in.Settings.CPUManagerPolicyOptions = map[string]string{options: "true"}
			}
			var p *Prediction
			const rounds = 5 // the kernel counts in ticks
			begin := processorTime(t)
			for range rounds {
				in.built = nil
				p = mustPredict(t, in)
			}
			took := (processorTime(t) - begin) / rounds
			t.Logf("%s, %s: %s in %v, %d courses, %d pieces of advice", policy, options, p.Verdict.words(), took, len(p.Outcomes), len(p.Advice))
			if took > 50*time.Millisecond {
				t.Errorf("%s, %s: %v", policy, options, took)
			}
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, policy := range []string{PolicyBestEffort, PolicySingleNUMANode} {
		b.Run(policy, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				in := large(policy)
				if _, err := Predict(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
