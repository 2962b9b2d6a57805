package cli

import (
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// BenchmarkCheck is the audit of this machine with every rule, a whole process
// each time. Its budget is 150 ms and 40 MB (the row's MB-resident).
func BenchmarkCheck(b *testing.B) {
	program := filepath.Join(b.TempDir(), "fettle")
	build := exec.Command("go", "build", "-o", program, "../../cmd/fettle")
	if said, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, said)
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"Live", []string{"check", "linux"}},
		{"LiveAll", []string{"check", "--all", "--output", "json", "--sample", "0"}},
		{"Archive", []string{"--root", "../../testdata/hosts/intel-2s-bare-metal.txt", "check"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var most int64
			var cpu, runs float64
			for b.Loop() {
				run := exec.Command(program, c.args...)
				var exit *exec.ExitError
				if said, err := run.CombinedOutput(); err != nil && !errors.As(err, &exit) {
					b.Fatalf("%v\n%s", err, said)
				}
				if u, ok := run.ProcessState.SysUsage().(*syscall.Rusage); ok {
					most = max(most, u.Maxrss)
					cpu += (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Seconds() * 1e3
					runs++
				}
			}
			b.ReportMetric(float64(most)*1024/1e6, "MB-resident")
			b.ReportMetric(cpu/runs, "ms-CPU")
		})
	}
}
