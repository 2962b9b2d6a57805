package etcd

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/plugin"
)

// TestReleases: the table can be read, each parameter is in all releases, and its default is
// that of the newest.
func TestReleases(t *testing.T) {
	known := Known()
	if known.Oldest != 4 || known.Newest < 7 {
		t.Errorf("%s to %s", known.Oldest, known.Newest)
	}
	for _, p := range parameters {
		if in := known.flagIn(p.Name); len(in) != int(known.Newest-known.Oldest)+1 {
			t.Errorf("%s is in %v", p.Name, in)
		}
		if def, ok := known.def(p.Name, known.Newest); ok && def != p.Default {
			t.Errorf("%s: %s by the table, and %s here", p.Name, def, p.Default)
		}
	}
	for _, text := range []string{"release 3.5 m v3.5.1\nrelease 3.7 m v3.7.1\n", "flag a bool 2.5\n", "key a 4.1\n", "other x y\n"} {
		if _, err := readReleases(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	for text, want := range map[string]Release{"3.5.21": 5, "v3.4.3": 4, "3.5.21-0": 5, "3.7": 7, "v3.5.9-k3s1": 5, "3.10_1": 10, "": -1, "latest": -1, "4.1": -1, "3.x": -1, "3.5x": -1} {
		if r, ok := parseRelease(text); ok != (want >= 0) || ok && r != want {
			t.Errorf("%q is %v, %v", text, r, ok)
		}
	}
}

// pod is a static pod with an image and flags.
func pod(image string, flags ...string) string {
	text := "spec:\n  containers:\n  - name: etcd\n    image: " + image + "\n    command:\n    - etcd\n"
	for _, f := range flags {
		text += "    - " + f + "\n"
	}
	return text
}

// one is the member that a machine's files set up.
func one(t *testing.T, files map[string]string) *installed {
	t.Helper()
	all, err := Product.Find(t.Context(), plugin.Tree(t, files))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d, %v", len(all), err)
	}
	return all[0].(*installed)
}

// TestByRelease: what a release refuses or ignores, by the version that the files say.
func TestByRelease(t *testing.T) {
	const manifest, config = "/etc/kubernetes/manifests/etcd.yaml", "/etc/etcd/c.yml"
	at := func(file string) func(string) map[string]string {
		return func(text string) map[string]string { return map[string]string{file: text} }
	}
	in := at(manifest)
	unit := func(flags, vars, file string) map[string]string {
		return map[string]string{"/lib/systemd/system/etcd.service": "[Service]\nEnvironmentFile=-/etc/default/etcd\nExecStart=/usr/local/bin/etcd " + flags + "\n", "/etc/default/etcd": vars, config: file}
	}
	for name, c := range map[string]struct {
		files                     map[string]string
		of                        Release // --for; 0 for none
		version, refused, ignored string  // "?" for unknown
	}{
		"as kubeadm has it":             {in(pod("registry.k8s.io/etcd:3.6.5-0", "--snapshot-count=10000")), 0, "3.6.5-0", "", ""},
		"removed":                       {in(pod("registry.k8s.io/etcd:3.7.0-0", "--experimental-initial-corrupt-check=true", "--memory-mlock")), 0, "3.7.0-0", "--experimental-initial-corrupt-check, " + manifest + ":7 (up to 3.6; now feature-gates=InitialCorruptCheck=true or false)", ""},
		"not removed yet":               {in(pod("k8s.gcr.io/etcd:v3.5.21-0@sha256:abc", "--experimental-initial-corrupt-check=true")), 0, "3.5.21-0", "", ""},
		"after the upgrade":             {in(pod("k8s.gcr.io/etcd:v3.5.21-0", "--experimental-initial-corrupt-check=true")), 7, "3.7", "--experimental-initial-corrupt-check, " + manifest + ":7 (up to 3.6; now feature-gates=InitialCorruptCheck=true or false)", ""},
		"not there yet":                 {in(pod("etcd:3.5.9", "--feature-gates=A=true")), 0, "3.5.9", "--feature-gates, " + manifest + ":7 (3.6 and later)", ""},
		"a gate that comes later":       {in(pod("etcd:3.6.9", "--feature-gates=PriorityRequest=true,CompactHashCheck=true")), 0, "3.6.9", "feature gate PriorityRequest, " + manifest + ":7 (3.7 and later)", ""},
		"no such gate":                  {in(pod("etcd:3.7.1", "--feature-gates=Nope=false,InitialCorruptCheck=maybe")), 0, "3.7.1", "feature gate Nope, " + manifest + ":7 (unknown feature gate)|feature gate InitialCorruptCheck, " + manifest + `:7 (want true or false, found "maybe")`, ""},
		"a newer release's gate":        {in(pod("etcd:3.9.1", "--feature-gates=WhatComesThen=true")), 0, "3.9.1", "?", ""},
		"a gate and its flag":           {in(pod("etcd:3.6.9", "--feature-gates=LeaseCheckpointPersist=true", "--experimental-enable-lease-checkpoint")), 0, "3.6.9", "feature gate LeaseCheckpoint, " + manifest + ":7 (experimental-enable-lease-checkpoint, " + manifest + ":6, also sets this gate; etcd accepts only one of them)|feature gate LeaseCheckpointPersist, " + manifest + ":7 (needs LeaseCheckpoint=true)", ""},
		"a gate that needs another":     {in(pod("etcd:3.7.3", "--feature-gates=LeaseCheckpointPersist=true")), 0, "3.7.3", "feature gate LeaseCheckpointPersist, " + manifest + ":7 (needs LeaseCheckpoint=true)", ""},
		"gates of all stages":           {in(pod("etcd:3.7.3", "--feature-gates=AllAlpha=true,LeaseCheckpointPersist=1")), 0, "3.7.3", "", ""},
		"gates in a file":               {unit("--config-file="+config+" --feature-gates=Nope=true", "", "feature-gates: CompactHashChecks=true\n"), 7, "3.7", "feature gate CompactHashChecks, " + config + ":1 (unknown feature gate)", ""},
		"a slip":                        {in(pod("etcd:3.5.9", "--snapshot-counts=7")), 0, "3.5.9", "--snapshot-counts, " + manifest + `:7 (did you mean "snapshot-count"?)`, ""},
		"a word":                        {in(pod("etcd:3.6.1", "--pre-vote", `"false"`)), 0, "3.6.1", `"false", ` + manifest + ":6: not a flag (write the value of a switch as --NAME=VALUE)", ""},
		"by digest":                     {in(pod("quay.io/x/etcd@sha256:abc", "--snapshot-count=7")), 0, "?", "", ""},
		"by digest, and it hangs on it": {in(pod("quay.io/x/etcd@sha256:abc", "--experimental-memory-mlock")), 0, "?", "?", ""},
		"newer":                         {in(pod("etcd:3.9.0", "--snapshot-count=7", "--discovery=x")), 0, "3.9.0", "--discovery, " + manifest + ":8 (up to 3.6)", ""},
		"newer, with a new flag":        {in(pod("etcd:3.9.0", "--what-comes-then=7")), 0, "3.9.0", "?", ""},
		"older":                         {in(pod("etcd:3.3.9", "--snapshot-count=7")), 0, "3.3.9", "?", "?"},
		"flag and variable":             {unit("--snapshot-count=5", "ETCD_SNAPSHOT_COUNT=\nETCD_NAME=a\n", ""), 6, "3.6", "--snapshot-count (/lib/systemd/system/etcd.service:3) and the variable ETCD_SNAPSHOT_COUNT (/etc/default/etcd:1) are both set; etcd accepts only one", ""},
		"a variable that is gone":       {unit("", "ETCD_ENABLE_V2=true\nETCD_DISCOVERY=\nETCD_UNSUPPORTED_ARCH=arm\n", ""), 6, "3.6", "", "ETCD_ENABLE_V2, /etc/default/etcd:1 (up to 3.5)"},
		"keys": {unit("--config-file="+config+" --snapshot-count=5", "ETCD_SNAPSHOT_COUNT=6\nETCD_NOTHING=7\n", "quota-backend-byte: 5\ndiscovery: x\nclient-transport-security:\n  cert-file: a\n  cert-fil: b\nbackend-batch-interval: 50ms\n"), 7, "3.7",
			"backend-batch-interval: 50ms, " + config + ":6: in this file a time is a number of nanoseconds",
			"quota-backend-byte, " + config + `:1 (did you mean "quota-backend-bytes"?)|discovery, ` + config + ":2 (up to 3.6)|client-transport-security.cert-fil, " + config + `:5 (did you mean "client-transport-security.cert-file"?)`},
	} {
		t.Run(name, func(t *testing.T) {
			i := one(t, c.files)
			if c.of > 0 {
				all, err := As(c.of).Find(t.Context(), plugin.Tree(t, c.files))
				if err != nil {
					t.Fatal(err)
				}
				i = all[0].(*installed)
			}
			for input, want := range map[string]string{"version": c.version, "refused_options": c.refused, "ignored_options": c.ignored} {
				a := i.Answer(input)
				got := "?"
				switch v := a.Value.(type) {
				case []string:
					got = strings.Join(v, "|")
				case string:
					got = v
				}
				if got != want || got == "?" && a.Unknown == "" {
					t.Errorf("%s: %+v, want %s", input, a, want)
				}
			}
		})
	}
}

// TestDefaultByRelease: a default is that of the member's release; where this is not known it
// is said that it is a guess.
func TestDefaultByRelease(t *testing.T) {
	for image, want := range map[string]string{"etcd:3.5.9": "100000", "etcd:3.6.5-0": "10000", "etcd:3.9.1": "10000", "etcd@sha256:ab": "10000"} {
		got, source := one(t, map[string]string{"/etc/kubernetes/manifests/etcd.yaml": pod(image)}).Default("snapshot-count")
		if guess := strings.Contains(source, "a guess"); got != want || guess != (image == "etcd@sha256:ab") {
			t.Errorf("%s: %s, %s", image, got, source)
		}
	}
	if v, _ := one(t, map[string]string{"/etc/kubernetes/manifests/etcd.yaml": pod("etcd:3.4.3")}).Default("pre-vote"); v != "false" {
		t.Errorf("pre-vote of 3.4: %s", v)
	}
}

// TestSpellings: numbers, times and truths are read as Go's flags, the variables and the
// configuration file have them.
func TestSpellings(t *testing.T) {
	const config = "/etc/etcd/c.yml"
	files := map[string]string{
		"/lib/systemd/system/etcd.service": "[Service]\nEnvironment=ETCD_MAX_WALS=\nExecStart=/usr/bin/etcd --config-file " + config + "\n",
		config:                             "backend-batch-interval: 50000000\npre-vote: no\nsnapshot-count: 0x1000\npeer-transport-security: {cert-file: p}\nclient-transport-security:\n  cert-file: c\n  trusted-ca-file: ca\n",
	}
	i := one(t, files)
	for name, want := range map[string]string{"backend-batch-interval": "50ms", "pre-vote": "false", "cert-file": "c", "peer-cert-file": "p", "trusted-ca-file": "ca", "max-wals": ""} {
		if v, _ := i.Option(name).File.Get(); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	for name, values := range map[string]map[string]any{
		"snapshot-count":      {"0x1000": 4096.0, "010": 8.0, "1_000": 1000.0, "10": 10.0, "-1": nil},
		"quota-backend-bytes": {"-1": -1.0, "-0x10": -1.0, "0": 0.0, "0x10": 16.0},
		"max-wals":            {"0b11": 3.0, "x": nil},
		"pre-vote":            {"1": true, "F": false, "True": true, "yes": nil},
	} {
		for text, want := range values {
			if v, err := parameters.Named(name).Read(text); v != want || (err == nil) != (want != nil) {
				t.Errorf("%s %s: %v, %v", name, text, v, err)
			}
		}
	}
	// fettle writes no text where the file has nanoseconds.
	if _, _, err := winner(plugin.Tree(t, files), config, "backend-batch-interval"); err == nil || !strings.Contains(err.Error(), "nanoseconds") {
		t.Error(err)
	}
	// An empty variable sets nothing.
	empty := one(t, map[string]string{"/lib/systemd/system/etcd.service": "[Service]\nEnvironment=ETCD_MAX_WALS= ETCD_CONFIG_FILE=\nExecStart=/usr/bin/etcd\n"})
	if v, ok := empty.Option("max-wals").File.Get(); ok || empty.Files.config != nil {
		t.Errorf("max-wals is %q, and its file %v", v, empty.Files.config)
	}
}

// TestQuota: a member that does not report its quota has the one of its option, as etcd
// reads it.
func TestQuota(t *testing.T) {
	for flag, want := range map[string]float64{"-1": -1, "-5": -1, "0": 2 << 30, "8589934592": 8 << 30, "0x100000000": 4 << 30, "": 2 << 30} {
		flags := []string{"--quota-backend-bytes=" + flag}
		if flag == "" {
			flags = nil
		}
		if a := one(t, map[string]string{"/etc/kubernetes/manifests/etcd.yaml": pod("etcd:3.6.5", flags...)}).Answer("quota_bytes"); a.Value != want {
			t.Errorf("%q: %+v, want %v", flag, a, want)
		}
	}
}
