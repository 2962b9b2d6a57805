package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var nightly = os.Getenv("FETTLE_TEST_NIGHTLY") == "1"

// TestTable holds the table of the host module against the source of the released modules,
// which are downloaded.
func TestTable(t *testing.T) {
	want, err := generate(true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the modules say: go run .", table)
	}
}

// servers are the real ones, by release. At night they are built; else the newest is taken
// where it is there.
func servers(t *testing.T) map[string]string {
	t.Helper()
	args := []string{"--print"}
	if nightly {
		args = nil
	}
	out, err := exec.Command("./build", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	if roots, err := exec.Command("../root/build", "servers", "--print").Output(); err == nil && nightly { // Debian's is 3.4
		if program := filepath.Join(strings.TrimSpace(string(roots)), "root/usr/bin/etcd"); exec.Command(program, "--version").Run() == nil {
			all["3.4"] = program
		}
	}
	for _, r := range releases[1:] {
		program := filepath.Join(strings.TrimSpace(string(out)), "etcd-"+r.name)
		if _, err := os.Stat(program); err == nil {
			all[r.name] = program
		}
	}
	if len(all) == 0 {
		t.Skip("the servers are not built: test/etcd-releases/build")
	}
	if newest := releases[len(releases)-1].name; !nightly {
		return map[string]string{newest: all[newest]}
	}
	return all
}

// rows are the lines of a kind: the name, then the words after it.
func rows(t *testing.T, kind string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == kind {
			out[words[1]] = words[2:]
		}
	}
	return out
}

func has(words []string, release string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return w == release || strings.HasPrefix(w, release+"=") })
}

// TestFlagsOfRealServers: each flag of the table is defined or refused as the table says, and
// takes the next word for its value or does not. No server is started: the last word is a
// flag that none of them has.
func TestFlagsOfRealServers(t *testing.T) {
	flags := rows(t, "flag")
	for release, program := range servers(t) {
		for name, words := range flags {
			out, err := exec.Command(program, "--"+name, "--no-such-a", "--no-such-b").CombinedOutput()
			says := func(text string) bool { return bytes.Contains(out, []byte(text)) }
			got := string(out)
			switch {
			case err == nil:
				got = "no error"
			case says("not defined: -" + name + "\n"):
				got = "unknown"
			case says("not defined: -no-such-a\n"):
				got = "switch"
			case says("not defined: -no-such-b\n"), says(`invalid value "--no-such-a"`):
				got = "value" // the next word was taken
			}
			want := "unknown"
			switch {
			case !has(words[1:], release):
			case words[0] == "bool" || words[0] == "ignored":
				want = "switch"
			default:
				want = "value"
			}
			if got != want {
				t.Errorf("etcd %s --%s: %s, and %s in the table", release, name, got, want)
			}
		}
	}
}

// TestGatesOfRealServers: each server takes the feature gates of the table that its release has,
// and no others. No server is started: the last word is a flag that none of them has.
func TestGatesOfRealServers(t *testing.T) {
	flags, gates := rows(t, "flag"), rows(t, "feature")
	gates["NoSuchGate"] = nil
	for release, program := range servers(t) {
		if !has(flags["feature-gates"][1:], release) {
			continue
		}
		for name, words := range gates {
			out, err := exec.Command(program, "--feature-gates="+name+"=true", "--no-such-a").CombinedOutput()
			taken := bytes.Contains(out, []byte("not defined: -no-such-a\n"))
			if refused := bytes.Contains(out, []byte("unrecognized feature gate: "+name)); err == nil || taken == refused || taken != has(words, release) {
				t.Errorf("etcd %s, %s: taken %t, and %v in the table: %s", release, name, taken, words, out)
			}
		}
	}
}

// TestKeysOfRealServers: a value of a wrong type is an error for each key of the table that
// the release has, and nothing at all for the others. No server is started: its timeouts
// contradict each other.
func TestKeysOfRealServers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "etcd.yml")
	for release, program := range servers(t) {
		keys := rows(t, "key")
		keys["quota-backend-byte"] = []string{"none"} // a slip of the pen
		n := 0
		for name, words := range keys {
			if n++; !nightly && n%8 != 0 && name != "quota-backend-byte" {
				continue // maps come in any order: a sample of them
			}
			outer, inner, nested := strings.Cut(name, ".")
			text := outer + ": [{}]\n"
			if nested {
				text = outer + ": {" + inner + ": [{}]}\n"
			}
			if name != "election-timeout" {
				text += "election-timeout: 1\n"
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "--config-file", file)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if later := name == "discovery-fallback" || strings.HasPrefix(name, "proxy"); later && has(words, release) {
				continue // 3.5 reads those after it has checked the others
			}
			read := bytes.Contains(out, []byte("cannot unmarshal")) || bytes.Contains(out, []byte("invalid peer-transport-security"))
			ignored := bytes.Contains(out, []byte("election-timeout[1ms]"))
			if want := has(words, release); err == nil || read != want || ignored == want {
				t.Errorf("etcd %s, %s: read %t, ignored %t, and known %t in the table: %s", release, name, read, ignored, want, out)
			}
		}
	}
}

// TestDefaultsOfRealServers: what each server logs at its start is the table's default.
func TestDefaultsOfRealServers(t *testing.T) {
	flags := rows(t, "flag")
	for release, program := range servers(t) {
		if release == "3.4" {
			continue // it writes another log
		}
		said, ok := runUntil(t, program, t.TempDir(), "starting an etcd server")
		if !ok {
			t.Fatalf("etcd %s did not start", release)
		}
		n := 0
		for name, words := range flags {
			value, ok := said[name]
			for _, w := range words[1:] {
				def, known := strings.CutPrefix(w, release+"=")
				// A quota of 0 is 2 GiB, and the interval is calculated.
				if !ok || !known || strings.HasSuffix(name, "-urls") || name == "quota-backend-bytes" && value == 2147483648.0 {
					continue
				}
				if n++; !same(value, def) {
					t.Errorf("etcd %s: %s is %v, and %s in the table", release, name, value, def)
				}
			}
		}
		if n < 15 {
			t.Errorf("etcd %s: only %d defaults in its log: %v", release, n, said)
		}
		t.Logf("etcd %s: %d defaults", release, n)
	}
}

// runUntil runs a server on a directory with data until its log has a message that begins
// so, which it returns; false if the server ends before.
func runUntil(t *testing.T, program, dir, message string, more ...string) (said map[string]any, ok bool) {
	t.Helper()
	port := 20000 + os.Getpid()%20000
	at := func(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", port+n) }
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--data-dir", dir, "--listen-client-urls", at(0), "--advertise-client-urls", at(0),
		"--listen-peer-urls", at(1), "--initial-advertise-peer-urls", at(1), "--initial-cluster", "default=" + at(1)}, more...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); !ok && lines.Scan(); {
		said = map[string]any{}
		if json.Unmarshal(lines.Bytes(), &said) == nil {
			text, _ := said["msg"].(string)
			ok = strings.HasPrefix(text, message)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return said, ok
}

// TestUpgrade: what rule E18 says of going from one release to another.
func TestUpgrade(t *testing.T) {
	if !nightly {
		t.Skip("only at night")
	}
	all := servers(t)
	const serves, saved = "ready to serve client requests", "saved snapshot"
	for _, tt := range []struct {
		name  string
		steps []string // release, or release+"s" until it has made a snapshot
		last  bool     // whether the last one starts
	}{
		{"one after the other", []string{"3.6", "3.7"}, true},
		{"one left out", []string{"3.5", "3.7"}, false},
		{"one left out, with a snapshot", []string{"3.5s", "3.7"}, false},
		{"no snapshot between", []string{"3.5", "3.6", "3.7"}, false},
		{"a snapshot between", []string{"3.5", "3.6s", "3.7"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, step := range tt.steps {
				release, snapshot := strings.CutSuffix(step, "s")
				message, more := serves, []string(nil)
				if snapshot {
					message, more = saved, []string{"--snapshot-count", "2"}
				}
				want := i+1 < len(tt.steps) || tt.last
				if _, ok := runUntil(t, all[release], dir, message, more...); ok != want {
					t.Fatalf("etcd %s starts: %t, want %t", release, ok, want)
				}
			}
		})
	}
}

// same compares a value of the log with a default: times are written in both ways.
func same(value any, def string) bool {
	switch v := value.(type) {
	case float64:
		return fmt.Sprintf("%.0f", v) == def
	case bool:
		return fmt.Sprint(v) == def
	case []any:
		return len(v) == 1 && fmt.Sprint(v[0]) == def
	case string:
		if v == def {
			return true
		}
		d, err := time.ParseDuration(v)
		return err == nil && (d.String() == def || fmt.Sprint(d.Milliseconds()) == def)
	}
	return false
}
