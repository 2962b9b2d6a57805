package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// TestEtcdUnasked tests a cluster whose members require a certificate: without one no member is
// queried, and the message names the members, the options and the files.
func TestEtcdUnasked(t *testing.T) {
	answers := checked()
	answers["/api/v1/namespaces/kube-system/pods?labelSelector=component%3Detcd"] = json.RawMessage(`{"items":[{"metadata":{"name":"etcd-a","annotations":{"kubeadm.kubernetes.io/etcd.advertise-client-urls":"https://192.0.2.1:2379"}},"status":{"phase":"Running"}}]}`)
	answers["/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-apiserver"] = json.RawMessage(`{"items":[{"spec":{"containers":[{"command":["kube-apiserver","--etcd-cafile=/pki/ca","--etcd-certfile=/pki/crt","--etcd-keyfile=/pki/key"]}]}}]}`)
	kubeconfig := apiServer(t, answers)
	const want = "the etcd members https://192.0.2.1:2379 (found in pods of kube-system) require a client certificate; name its files with --etcd-cacert, --etcd-cert and --etcd-key; on a node of the control plane they are /pki/ca, /pki/crt and /pki/key"
	code, out, said := run(t, "--kubeconfig", kubeconfig, "check", "--output", "json")
	var doc struct{ Findings []rule.Finding }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != ui.Done {
		t.Fatalf("%d %v: %s", code, err, said)
	}
	told := false
	for _, f := range doc.Findings {
		told = told || f.State == rule.Unknown && strings.Contains(f.Reason, want)
	}
	if !told {
		t.Errorf("not said: %s\n%s", want, out)
	}
	if code, _, said := run(t, "--kubeconfig", kubeconfig, "check", "--defragment", "--yes"); code != ui.Usage || !strings.Contains(said, "nothing defragmented: "+want) {
		t.Errorf("%d %s", code, said)
	}
	// Files that cannot be used are told whatever the cluster shows.
	file := filepath.Join(t.TempDir(), "crt")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 64<<30); err != nil { // sparse
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"check --etcd-key /dev/zero":                                     "--etcd-key: /dev/zero is a device; want a regular file",
		"check --etcd-cacert " + large:                                   "--etcd-cacert: " + large + " is larger than 1024 KiB",
		"check --etcd-key /is/not/there":                                 "--etcd-key: /is/not/there",
		"check --etcd-cert " + file:                                      "want both a client certificate and its key",
		"check --etcd-cacert " + file:                                    "the CA file has no certificate in PEM",
		"check --etcd-endpoints https://a:1,https://a:1":                 "https://a:1 is named twice",
		"check --etcd-endpoints http://a:1 --etcd-cert /is/not/there":    "--etcd-cert: /is/not/there",
		"load run --etcd-metrics https://a:1 --etcd-cacert " + file:      "--etcd-metrics: the CA file has no certificate in PEM",
		"load run --etcd-metrics http://a:1 --etcd-cert " + file:         ": a client certificate needs https",
		"load resume --etcd-metrics https://a:1 --etcd-key /is/not/here": "--etcd-key: /is/not/here",
	} {
		if code, _, said := run(t, append([]string{"--kubeconfig", kubeconfig}, strings.Fields(args)...)...); code != ui.Usage || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d: %s, want %s", args, code, said, want)
		}
	}
}

// TestWatched tests the members whose metrics the brake can read, with and without a path or a
// port.
func TestWatched(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:2381": "http://127.0.0.1:2381", "http://127.0.0.1:2381/": "http://127.0.0.1:2381", "https://[::1]:2379/etcd/metrics": "https://[::1]:2379",
		"http://etcd": "http://etcd:80", "https://etcd/x": "https://etcd:443",
		"": "", "127.0.0.1:2381": "", "2381": "", "ftp://x": "", "http://": "", "http://user:secret@x": "", "http://x?y": "", "http://x#y": "",
	} {
		all, err := (&etcdAccess{}).watched([]string{address})
		if want == "" {
			if err == nil {
				t.Errorf("%q: %v", address, err)
			}
			continue
		}
		if err != nil || len(all) != 1 || all[0].Name != want {
			t.Errorf("%q: %+v, %v", address, all, err)
		}
	}
}
