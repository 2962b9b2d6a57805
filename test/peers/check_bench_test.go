package peers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// audits is the rows of the table about check, which TuneD has nothing like, and
// what of the promises is not met: of this machine, whatever runs on it, and of a
// sosreport of 2 GB that has just been written.
func audits(t *testing.T, program string) (rows string, unmet []string) {
	t.Helper()
	const memory = 40 // MB, resident at the most
	for _, c := range []struct {
		name  string
		under time.Duration
		cpu   time.Duration // at most; 0: not promised
		argv  []string
	}{
		{"audit of this machine (`fettle check --sample 0`)", 150 * time.Millisecond, 80 * time.Millisecond, []string{"check", "--sample", "0"}},
		{"audit of a sosreport of 2 GB, as a Satellite", time.Second, 0, []string{"--root", bigSosreport(t), "check", "linux", "satellite"}},
	} {
		var took, cpu []time.Duration
		for range rounds {
			run := exec.Command(program, c.argv...)
			start := time.Now()
			out, err := run.CombinedOutput()
			took = append(took, time.Since(start))
			cpu = append(cpu, run.ProcessState.UserTime()+run.ProcessState.SystemTime())
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || !strings.Contains(string(out), " not-applicable") {
				t.Fatalf("%q: %v\n%s", c.argv, err, out)
			}
		}
		mb := peak(t, exec.Command(program, c.argv...))
		rows += fmt.Sprintf("| %s, ms | - | %s (%s-%s) | | under %s |\n", c.name, ms(median(took)), ms(slices.Min(took)), ms(slices.Max(took)), ms(c.under))
		if c.cpu > 0 {
			rows += fmt.Sprintf("| its processor time, ms | - | %s (%s-%s) | | at most %s |\n", ms(median(cpu)), ms(slices.Min(cpu)), ms(slices.Max(cpu)), ms(c.cpu))
			if m := median(cpu); m > c.cpu {
				unmet = append(unmet, fmt.Sprintf("processor time of the %s: %s ms, promised at most %s", c.name, ms(m), ms(c.cpu)))
			}
		}
		rows += fmt.Sprintf("| its memory at the most, MB | - | %.1f | | under %d |\n", mb, memory)
		if m := median(took); m >= c.under {
			unmet = append(unmet, fmt.Sprintf("%s: %s ms, promised under %s", c.name, ms(m), ms(c.under)))
		}
		if mb >= memory {
			unmet = append(unmet, fmt.Sprintf("memory of the %s: %.1f MB, promised under %d", c.name, mb, memory))
		}
	}
	return rows, unmet
}

// peak is the resident memory that a program has had at the most, in MB, as the
// kernel says it while it runs (VmHWM). What wait4(2) says is at least the memory
// of the process that has started it.
func peak(t *testing.T, c *exec.Cmd) float64 {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	most := 0
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.Process.Pid))
		for line := range strings.Lines(string(status)) {
			var kb int
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 && name == c.Path {
				most = max(most, kb)
			}
		}
		select {
		case <-ended:
			if most == 0 {
				t.Fatalf("%q has ended before anybody saw its memory", c.Args)
			}
			return float64(most) * 1024 / 1e6
		case <-time.After(time.Millisecond):
		}
	}
}

// bigSosreport writes the report of a Satellite whose logs are 2 GB.
func bigSosreport(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, times int) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(p)
		if err != nil {
			t.Fatal(err)
		}
		for range times {
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var rpms strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&rpms, "package%d-1.%d-3.el8.x86_64                        Tue 02 Apr 2024 10:00:00 AM UTC\n", i, i)
	}
	write("installed-rpms", rpms.String()+"foreman-3.3.0.17-1.el8sat.noarch  Tue\nkatello-4.5.0-1.el8sat.noarch  Tue\nsatellite-6.12.0-4.el8sat.noarch  Tue\n", 1)
	write("etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"8.7\"\n", 1)
	write("proc/meminfo", "MemTotal:       20480000 kB\nMemFree: 1000000 kB\n", 1)
	write("sos_commands/kernel/sysctl_-a", "kernel.osrelease = 4.18.0\nvm.swappiness = 60\n", 1)
	write("version.txt", "sosreport: 4.2\n", 1)
	line := map[string]string{
		"var/log/foreman/production.log":             "2026-03-01T10:00:00 [I|app|3f2a8c1d] Completed 200 OK in 145ms (Views: 2.1ms | ActiveRecord: 31.8ms | Allocations: 41235)\n",
		"var/log/httpd/foreman-ssl_access_ssl.log":   "192.0.2.17 - - [01/Mar/2026:10:00:00 +0000] \"GET /rhsm/consumers/8b2c41c7-0000-4000-8000-000000000000/certificates/serials HTTP/1.1\" 200 81 \"-\" \"RHSM/1.0\"\n",
		"var/log/httpd/error_log":                    "[Sun Mar 01 10:00:00.000000 2026] [mpm_event:notice] [pid 1234:tid 140] AH00489: Apache/2.4.37 configured -- resuming normal operations\n",
		"var/log/messages":                           "Mar  1 10:00:00 satellite systemd[1]: Started Session 12345 of user foreman-proxy.\n",
		"sos_commands/logs/journalctl_--no-pager":    "Mar 01 10:00:00 satellite.example.com qpidd[1234]: 2026-03-01 10:00:00 [Protocol] notice Connection closed\n",
		"var/log/httpd/foreman-ssl_error_ssl.log":    "[Sun Mar 01 10:00:00.000000 2026] [proxy:warn] [pid 1234:tid 140] [client 192.0.2.17:40000] AH01144: No protocol handler was valid\n",
		"var/log/puppetlabs/puppetserver/access.log": "192.0.2.17 - - [01/Mar/2026:10:00:00 +0000] \"POST /puppet/v3/catalog/host.example.com HTTP/1.1\" 200 81 \"-\" \"Puppet/7\" 812 512\n",
		"var/log/candlepin/candlepin.log":            "2026-03-01 10:00:00,000 [thread=http-bio-8443-exec-1] INFO org.candlepin - Response: status=200\n",
	}
	for name, text := range line {
		block := strings.Repeat(text, 1<<20/len(text))
		write(name, block, 2000*1000*1000/len(line)/len(block)+1)
	}
	return dir
}
