package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	loadrun "fettle.dev/fettle/kube/load/run"
)

// TestCompletion: arguments and flags with a finite set of values are completed, names of
// objects by the cluster. Without a cluster there is no suggestion, and no error text.
func TestCompletion(t *testing.T) {
	kubeconfig := api(t, map[string]string{
		"/api/v1/nodes":                     `{"items":[{"metadata":{"name":"worker-1"}},{"metadata":{"name":"worker-2"}}]}`,
		"/api/v1/namespaces":                `{"items":[{"metadata":{"name":"shop"}}]}`,
		"/api/v1/namespaces/default/pods":   `{"items":[{"metadata":{"name":"web-0"}}]}`,
		machinePath + "machinesets":         `{"items":[{"metadata":{"name":"workers-a"}}]}`,
		machinePath + "machinehealthchecks": `{"items":[{"metadata":{"name":"workers"}}]}`,
	})
	state := t.TempDir()
	if _, err := (loadrun.Store{Dir: state}).Create(&loadrun.StoredRun{ID: "20261128-140000-123"}, loadrun.Header{}); err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{
		"status ":                 "worker-1 worker-2",
		"status worker-1 ":        "worker-2",
		"agent --node ":           "worker-1 worker-2",
		"status --namespace ":     "shop",
		"pod verify ":             "web-0",
		"health ":                 "workers",
		"scale plan ":             "workers-a",
		"scale execute ":          "workers-a",
		"load mirror ":            "shop",
		"load resume ":            "20261128-140000-123",
		"load undo ":              "20261128-140000-123",
		"load compare ":           "20261128-140000-123",
		"load plan --ignore ":     strings.Join(ignorable, " "),
		"status --allow script,":  "script,script script,bootloader script,service script,systemd script,modules script,exec",
		"check --fail-on ":        "fail warn unknown",
		"pod explain --expect ":   strings.Join(outcomes, " "),
		"size postgresql --disk ": "hdd ssd nvme san",
		"size openshift --route ": "none edge passthrough re-encrypt",
	} {
		words := strings.Split(call, " ")
		args := append([]string{"__complete"}, words[:len(words)-1]...)
		if !strings.HasPrefix(call, "size") && !strings.HasPrefix(call, "load ") {
			args = append([]string{"__complete", words[0], "--kubeconfig", kubeconfig}, words[1:len(words)-1]...)
		}
		if strings.HasPrefix(call, "load ") {
			args = append([]string{"__complete", "load", words[1], "--kubeconfig", kubeconfig, "--state-dir", state}, words[2:len(words)-1]...)
		}
		_, out, _ := run(t, append(args, words[len(words)-1])...)
		var got []string
		for line := range strings.Lines(out) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(name, ":") && name != "" {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: completed %q, want %q", call, got, want)
		}
	}
	gone := filepath.Join(state, "gone")
	if _, out, said := run(t, "__complete", "status", "--kubeconfig", gone, ""); strings.TrimSpace(out) != ":4" || strings.Contains(said, gone) {
		t.Errorf("without a cluster: printed %q, said %q", out, said)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("completion made a file")
	}
}

const machinePath = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/"
