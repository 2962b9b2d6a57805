package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// missing skips a test whose component is not here, and fails where all are required.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("FETTLE_TEST_REQUIRE") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// TestTable holds the table of the host module against the source of the released modules.
// At night they are downloaded; else the test runs where they are in the cache.
func TestTable(t *testing.T) {
	want, err := generate(os.Getenv("FETTLE_TEST_NIGHTLY") == "1")
	if err != nil && os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		t.Skipf("make test-nightly downloads the modules of all releases: %v", err)
	}
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

// kubelet is the program that test/cluster builds.
func kubeletProgram(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("../cluster/build", "--print").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(strings.TrimSpace(string(dir)), "kubelet")
	if _, err := os.Stat(program); err != nil {
		missing(t, "the kubelet is not built: test/cluster/build")
	}
	return program
}

// TestRefused: a real kubelet does not start with a gate that it does not know, nor with one
// that is set against its lock.
func TestRefused(t *testing.T) {
	program, dir := kubeletProgram(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that starts would run on
	defer cancel()
	for gates, want := range map[string]string{
		"WhatComesThen: true":   "unrecognized feature gate: WhatComesThen",
		"KubeletTracing: false": "cannot set feature gate KubeletTracing to false, feature is locked to true",
	} {
		config := filepath.Join(dir, "config.yaml")
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {" + gates + "}\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(ctx, program, "--config", config, "--root-dir", filepath.Join(dir, "state")).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s: %v, without %q: %s", gates, err, want, out)
		}
	}
}

// TestRealKubelet holds the table against the gates that the kubelet of test/cluster lists
// in its help: those in alpha and beta.
func TestRealKubelet(t *testing.T) {
	program := kubeletProgram(t)
	help, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	// The module that test/cluster builds has the release.
	mod, err := os.ReadFile("../cluster/kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`k8s\.io/kubernetes v1\.(\d+)\.`).FindSubmatch(mod)
	if release == nil {
		t.Fatal("test/cluster/kubernetes/go.mod names no k8s.io/kubernetes")
	}
	minor, err := strconv.Atoi(string(release[1]))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(written)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "gate" {
			continue
		}
		for _, span := range words[2:] {
			var first, last int
			releases, spec, _ := strings.Cut(span, ":")
			from, to, _ := strings.Cut(releases, "-")
			first, _ = strconv.Atoi(from)
			last, _ = strconv.Atoi(to)
			if first <= minor && minor <= last && (strings.HasPrefix(spec, "alpha") || strings.HasPrefix(spec, "beta")) {
				want[words[1]] = strings.TrimSuffix(spec, ",locked")
			}
		}
	}
	// A kubelet lists each gate once, some builds under two flags.
	listed := map[string]string{}
	// Behind "or" stands what holds with --min-compatibility-version, which it does not have.
	for _, m := range regexp.MustCompile(`(\w+)=true\|false \((ALPHA|BETA) - default=(true|false)\)( if)?`).FindAllSubmatch(help, -1) {
		if len(m[4]) > 0 {
			continue
		}
		on := "off"
		if bytes.Equal(m[3], []byte("true")) {
			on = "on"
		}
		listed[string(m[1])] = strings.ToLower(string(m[2])) + "," + on
	}
	if len(listed) < 50 {
		t.Fatalf("only %d gates in the kubelet's help", len(listed))
	}
	for name, spec := range want {
		if listed[name] != spec {
			t.Errorf("%s is %q in the kubelet's help, and %q in the table", name, listed[name], spec)
		}
	}
	for name, spec := range listed {
		if want[name] == "" {
			t.Errorf("%s, %s, is not in the table", name, spec)
		}
	}
	t.Logf("%d gates of Kubernetes 1.%d", len(listed), minor)
}

// TestProgramFlags: the table has every flag that a real program of a control plane lists, and of
// a kubelet no other.
func TestProgramFlags(t *testing.T) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := exec.Command("../cluster/build", "--print").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range flagPackages {
		program := filepath.Join(strings.TrimSpace(string(dir)), name)
		if _, err := os.Stat(program); err != nil {
			missing(t, "%s is not built: test/cluster/build", name)
		}
		help, err := exec.CommandContext(t.Context(), program, "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		version, err := exec.CommandContext(t.Context(), program, "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		release := regexp.MustCompile(`v1\.(\d+)\.`).FindSubmatch(version)
		if release == nil {
			t.Fatalf("%s: %s", program, version)
		}
		flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9_-]+)`).FindAllSubmatch(help, -1)
		if len(flags) < 40 {
			t.Errorf("%s lists %d flags", name, len(flags))
		}
		for _, f := range flags {
			line := regexp.MustCompile(`(?m)^flag ` + name + ` ` + strings.ReplaceAll(string(f[1]), "_", "-") + ` .*\b\d\d-(\d\d)$`).FindSubmatch(text)
			if line == nil || string(line[1]) < string(release[1]) {
				t.Errorf("%s 1.%s has --%s, and the table has not", name, release[1], f[1])
			}
		}
		for _, f := range regexp.MustCompile(`(?m)^flag kubelet (\S+) .*-`+string(release[1])+`$`).FindAllSubmatch(text, -1) {
			if name == kubelet && !regexp.MustCompile(`(?m)^ +(-\w, )?--`+string(f[1])+`\b`).Match(help) {
				t.Errorf("kubelet 1.%s has no --%s, and the table has", release[1], f[1])
			}
		}
	}
}
