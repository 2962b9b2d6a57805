package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/host"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
)

// sizedFront runs fettle size on a machine and returns the machine with what it wrote, by
// the name that its file has there.
func sizedFront(t *testing.T, files map[string]string, words ...string) string {
	t.Helper()
	dir := t.TempDir()
	testkitmachine.Write(t, dir, files)
	var out, said strings.Builder
	if code := Main("test", append([]string{"size", words[0], "--root", dir}, words[1:]...), &out, &said); code != 0 {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	return out.String()
}

// A log of httpd, in which 200 requests are at work at a time, each for ten seconds, is
// answered by what check finds right, and by more than httpd has now.
func TestSizeHTTPDFromLog(t *testing.T) {
	var b strings.Builder
	for s := range 300 {
		for i := range 20 {
			fmt.Fprintf(&b, "10.0.0.%d - - [20/Nov/2026:10:%02d:%02d +0000] \"GET /a%d HTTP/1.1\" 200 1 10000000 \"-\" \"x\"\n", i, s/60, s%60, i)
		}
	}
	machine := puppetMachine()
	machine["var/log/apache2/access.log"] = b.String()
	machine["etc/apache2/mods-enabled/event.conf"] = "ThreadsPerChild 20\nMaxRequestWorkers 160\n"
	machine["etc/apache2/apache2.conf"] += "IncludeOptional conf-enabled/*.conf\n"
	dir := t.TempDir()
	out := sizedFront(t, machine, "httpd", "--log", "/var/log/apache2/access.log", "--write", dir)
	for _, want := range []string{"--mpm event", "--threads 20", "--for debian", "200 requests", "x 2 is 400", "The log reaches httpd's present limit (160)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	machine["etc/apache2/conf-enabled/zz-limits.conf"] = readFile(t, dir+"/"+server.DebianFile)
	machineDir := t.TempDir()
	testkitmachine.Write(t, machineDir, machine)
	h := host.Mounted(machineDir)
	s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
	if a := s.Answer("httpd.max_request_workers"); a.Value != 400.0 {
		t.Errorf("%+v", a)
	}
	for _, g := range loadCatalogue(t).Check(t.Context(), s, []string{"httpd"}, nil) {
		if (g.ID == "H01" || g.ID == "H02") && g.State != rule.Passed {
			t.Errorf("%s is %s: %v, want %v", g.ID, g.State, g.Measured, g.Want)
		}
	}
}

// The rate of a log that spans less than a minute is that of its seconds, whichever minutes
// of the clock they are in.
func TestSizeShortLog(t *testing.T) {
	var b strings.Builder
	for s := range 11 {
		for range 20 {
			fmt.Fprintf(&b, "10.0.0.1 - - [20/Nov/2026:10:%02d:%02d +0000] \"GET /a HTTP/1.1\" 200 1 500000 \"-\" \"x\"\n", (55+s)/60, (55+s)%60)
		}
	}
	out := sizedFront(t, map[string]string{"a.log": b.String()}, "httpd", "--log", "/a.log", "--for", "debian")
	if line := regexp.MustCompile(`(?m)^log +rate .*$`).FindString(out); !strings.Contains(line, " 22/s ") || !strings.Contains(line, "in the 10 s that the log spans") {
		t.Errorf("%q in\n%s", line, out)
	}
}

// An absolute --log that a copy lacks is read from this machine, and a message says so.
func TestSizeLogOfThisMachine(t *testing.T) {
	root, log := t.TempDir(), t.TempDir()+"/a.log"
	testkitmachine.Write(t, "/", map[string]string{log: "10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 1 500000 \"-\" \"x\"\n"})
	var out, said strings.Builder
	code := Main("test", []string{"size", "httpd", "--root", root, "--log", log, "--for", "debian"}, &out, &said)
	if want := "--log " + log + ": not found in " + root + " (--root); reading this machine's file instead"; code != 0 || !strings.Contains(said.String(), want) {
		t.Errorf("exit code %d, %s, want %q", code, said.String(), want)
	}
	said.Reset()
	if code := Main("test", []string{"size", "httpd", "--root", root, "--log", log + ".gone", "--for", "debian"}, &out, &said); code == 0 || !strings.Contains(said.String(), "a.log.gone") {
		t.Errorf("exit code %d, %s", code, said.String())
	}
}

// A log of HAProxy says how many connections it had, and what its timeouts ended.
func TestSizeRouterFromLog(t *testing.T) {
	var b strings.Builder
	for s := range 120 {
		how, took := "----", 40
		if s%40 == 0 {
			how, took = "sH--", 30_000
		}
		fmt.Fprintf(&b, "Nov 20 10:%02d:%02d host haproxy[1]: 10.0.0.1:4000 [20/Nov/2026:10:%02d:%02d.000] fe be/s1 0/0/1/%d/%d 200 100 - - %s %d/1/1/1/0 0/0 \"GET /a HTTP/1.1\"\n", s/60, s%60, s/60, s%60, took-2, took, how, 6000+s)
	}
	const main = "etc/haproxy/haproxy.cfg"
	machine := map[string]string{"var/log/haproxy.log": b.String(), main: "global\ndefaults\n", "proc/meminfo": "MemTotal:       16000000 kB\n", "sys/devices/system/cpu/online": "0-3\n"}
	dir := t.TempDir()
	out := sizedFront(t, machine, "router", "--for", "haproxy", "--log", "/var/log/haproxy.log", "--cpus", "4", "--ram", "8GiB", "--write", dir)
	for _, want := range []string{"6,119 connections at a time, as HAProxy logs them; x 2 is 12,238", "3 requests timed out, the longest after 30 s"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	machine[main] = readFile(t, dir+"/"+server.HAProxyFile) + "listen x\n    bind 127.0.0.1:80\n    server a 127.0.0.1:81\n"
	machineDir := t.TempDir()
	testkitmachine.Write(t, machineDir, machine)
	h := host.Mounted(machineDir)
	s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
	for input, want := range map[string]any{"haproxy.maxconn": 13000.0, "haproxy.nbthread": 4.0, "haproxy.timeout-server": 60.0, "haproxy.timeout-client": 30.0, "haproxy.timeout-connect": 5.0} {
		if a := s.Answer(input); a.Value != want {
			t.Errorf("%s is %+v, want %v", input, a, want)
		}
	}
	for _, g := range loadCatalogue(t).Check(t.Context(), s, []string{"haproxy"}, nil) {
		if (g.ID == "L04" || g.ID == "L09") && g.State != rule.Passed {
			t.Errorf("%s is %s: %v, want %v (%s)", g.ID, g.State, g.Measured, g.Want, g.Reason)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
