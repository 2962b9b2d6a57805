package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/fact/compare"
	"fettle.dev/fettle/internal/ui"
)

const recordedHosts = "../../testdata/hosts/"

// TestFactsCompareRecorded compares two recorded machines whole. FETTLE_UPDATE_GOLDEN=1 writes the
// result.
func TestFactsCompareRecorded(t *testing.T) {
	out, _ := output(t, thisSystem(), "facts", "compare", recordedHosts+"debian-guest.txt", recordedHosts+"microvm.txt", "--all", "--details")
	const golden = "testdata/facts-compare.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != out {
		t.Errorf("%v; %s differs:\n%s", err, golden, out)
	}
}

// TestFactsCompareFits: the default output has at most 40 lines of 80 columns, for two machines
// and for many.
func TestFactsCompareFits(t *testing.T) {
	dir := t.TempDir()
	names, err := filepath.Glob(recordedHosts + "*.txt")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, args := range [][]string{{names[0], names[len(names)-1]}, names} {
		var out, errs bytes.Buffer
		screen := ui.NewScreen(&out, &errs)
		screen.Width = 80
		a := &app{system: thisSystem(), screen: screen, stateFlag: dir}
		if err := a.factsCompare(t.Context(), args, compare.View{}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) > 40 || len(lines) < 20 {
			t.Errorf("%d lines:\n%s", len(lines), &out)
		}
		for _, l := range lines {
			if len([]rune(l)) > 80 && strings.Contains(strings.TrimSpace(l), " ") {
				t.Errorf("%d columns: %s", len([]rune(l)), l)
			}
		}
	}
}

// archivesOf writes archives of n machines into a directory: the recorded debian-guest, with its own
// name and memory each. The machines of odd have other values.
func archivesOf(t testing.TB, n int, odd map[int]map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	base, err := os.ReadFile(recordedHosts + "debian-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := func(text, before, line string) string {
		from := strings.Index(text, before)
		if from < 0 {
			t.Fatal(before)
		}
		from += len(before)
		return text[:from] + line + text[from+strings.IndexByte(text[from:], '\n'):]
	}
	for i := range n {
		text := line(string(base), "/proc/sys/kernel/hostname --\n", fmt.Sprintf("web%d", i))
		text = line(text, "MemTotal:", fmt.Sprintf("%d kB", 2016132+4*i))
		for file, value := range odd[i] {
			text = line(text, file+" --\n", value)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("web%d.txt", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFactsCompareFleet finds the machines that deviate among hundreds.
func TestFactsCompareFleet(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 60
	}
	dir := archivesOf(t, n, map[int]map[string]string{
		17: {"/proc/sys/vm/swappiness": "10", "/proc/sys/vm/dirty_ratio": "40", "/proc/sys/kernel/pid_max": "32768"},
		41: {"/proc/sys/vm/swappiness": "10"},
		55: {"/proc/sys/vm/swappiness": "30"},
	})
	if err := os.WriteFile(filepath.Join(dir, "broken.txt"), []byte("fettle archive v2\n-- nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Main("test", []string{"facts", "compare", dir, "--output", "json"}, &out, &errs); code != ui.Failed {
		t.Errorf("exit code %d with an archive that cannot be read: %s", code, &errs)
	}
	var r compare.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.NotRead) != 1 || r.NotRead[0].Name != "broken" || !strings.Contains(errs.String(), "broken") {
		t.Errorf("not read: %+v; %s", r.NotRead, &errs)
	}
	if want := fmt.Sprintf("%d machines: 3 settings deviate on 3 machines; host web17 deviates most", n); r.Headline.Lines[0] != want {
		t.Errorf("headline %q, want %q", r.Headline.Lines[0], want)
	}
	deviates := map[string][]string{}
	for _, d := range r.Settings {
		for _, h := range d.Values[1:] {
			deviates[d.Name] = append(deviates[d.Name], h.Machines...)
		}
	}
	for name, want := range map[string][]string{"vm.swappiness": {"web17", "web41", "web55"}, "vm.dirty_ratio": {"web17"}, "kernel.pid_max": {"web17"}} {
		if got := deviates[name]; !slices.Equal(got, want) {
			t.Errorf("%s deviates on %v, want %v", name, got, want)
		}
	}
	i := slices.IndexFunc(r.Settings, func(d compare.Difference) bool { return d.Name == "kernel.pid_max" })
	if by := r.Settings[max(i, 0)].Values[1].SetBy; len(by) != 1 || by[0].File != "/usr/lib/sysctl.d/50-pid-max.conf" || by[0].Value == nil {
		t.Errorf("the file that sets kernel.pid_max to another value: %+v", by)
	}
}

// BenchmarkFactsCompare compares 500 archives: of all recorded machines, of the largest one, and of
// this one with as many sysctls and packages as a complete archive has (4200 entries, 1.4 MB). Each
// has a size of memory of its own. It fails above 5 s of CPU time or 200 MiB: the machines are read
// on all processors.
func BenchmarkFactsCompare(b *testing.B) {
	const largest = "intel-2s-bare-metal.txt"
	var more strings.Builder
	more.WriteString("-- file 0644 /var/lib/dpkg/status --\n" + strings.Repeat("Package: libexample1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.36.1-9+deb12u1\n\n", 12_000))
	for i := range 2300 {
		fmt.Fprintf(&more, "-- file 0644 /proc/sys/net/part%d/option%d --\n%d\n", i/40, i%40, i)
	}
	for _, fleet := range []struct{ name, pattern, more string }{{"all", "*.txt", ""}, {"largest", largest, ""}, {"complete", largest, more.String()}} {
		b.Run(fleet.name, func(b *testing.B) {
			dir := fleetOf(b, fleet.pattern, fleet.more)
			for b.Loop() {
				before := cpuTime()
				var errs bytes.Buffer
				if code := Main("test", []string{"facts", "compare", dir}, &bytes.Buffer{}, &errs); code != 0 {
					b.Fatal(&errs)
				}
				cpu := cpuTime() - before
				b.ReportMetric(cpu, "cpu-s/op")
				if cpu > 5 {
					b.Errorf("%.1f s of CPU time", cpu)
				}
			}
			var usage syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
				b.ReportMetric(float64(usage.Maxrss)/1024, "max-MiB")
				if usage.Maxrss > 200<<10 {
					b.Errorf("%d KiB of memory", usage.Maxrss)
				}
			}
		})
	}
}

// fleetOf makes 500 archives of recorded machines, with more entries in each.
func fleetOf(b *testing.B, pattern, more string) string {
	b.Helper()
	names, err := filepath.Glob(recordedHosts + pattern)
	if err != nil || len(names) == 0 {
		b.Fatal(err)
	}
	dir, total := b.TempDir(), regexp.MustCompile(`(?m)^MemTotal: .*$`)
	for i := range 500 {
		text, err := os.ReadFile(names[i%len(names)])
		if err == nil {
			text = total.ReplaceAll(text, fmt.Appendf(nil, "MemTotal: %d kB", 16<<20+i))
			text = append(bytes.TrimSuffix(text, []byte("-- end --\n")), more+"-- end --\n"...)
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("web%d.txt", i)), text, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// cpuTime returns the CPU time of this process in seconds.
func cpuTime() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
