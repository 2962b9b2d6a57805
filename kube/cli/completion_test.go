package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	loadrun "fettle.dev/fettle/kube/load/run"
)

// TestCompletion: arguments and flags with a finite set of values are completed, names of
// objects by the cluster. Without a cluster there is no suggestion, and no error text.
func TestCompletion(t *testing.T) {
	kubeconfig := api(t, map[string]string{
		"/apis/apps/v1/daemonsets":          `{"items":[{"metadata":{"name":"fettle-agent"}}]}`,
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
		"status --cluster ":       "a",
		"status --context ":       "a",
		"agent --daemonset ":      "fettle-agent",
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
	pods := manifest(t, nextPod+"\n---\n"+largePod)
	if _, out, _ := run(t, "__complete", "pod", "explain", pods, "--only", ""); !strings.Contains(out, "Pod/large\n") || !strings.HasSuffix(strings.TrimSpace(out), ":4") {
		t.Errorf("--only: %q", out)
	}
	users := filepath.Join(state, "users")
	if err := os.WriteFile(users, []byte("{users: [{name: jane, user: {}}, {name: admin, user: {}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run(t, "__complete", "status", "--kubeconfig", users, "--user", ""); out != "admin\njane\n:4\n" {
		t.Errorf("--user: %q", out)
	}
	gone := filepath.Join(state, "gone")
	if _, out, said := run(t, "__complete", "status", "--kubeconfig", gone, ""); strings.TrimSpace(out) != ":4" || strings.Contains(said, gone) {
		t.Errorf("without a cluster: printed %q, said %q", out, said)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("completion made a file")
	}
}

// amounts are flags with numbers and units, and names that the user makes up.
var amounts = []string{
	"allow", "base-domain", "certname", "cluster-name", "cpu", "defragment-size", "etcd-metrics", "etcd-quota", "expect", "margin", "max-unhealthy", "memory", "path", "prefix", "rate", "scenario-server", "service", "since", "slo", "steps", "storage-class", "until",
}

// TestCompletionIsComplete: each flag with a text completes it, unless it has no finite set of
// values.
func TestCompletionIsComplete(t *testing.T) {
	root := tree("test")
	check := func(c *cobra.Command, f *pflag.Flag) {
		texts := slices.Contains([]string{"string", "text", "list", "stringArray", "stringSlice"}, f.Value.Type())
		if _, ok := c.GetFlagCompletionFunc(f.Name); texts && !ok && !f.Hidden && !slices.Contains(append(amounts, program.Free...), f.Name) {
			t.Errorf("%s --%s: its values are not completed", c.CommandPath(), f.Name)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { check(c, f) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

const machinePath = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/"
