package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
)

// An OpenShift node runs what the Node Tuning Operator's default object recommends for its
// labels; fettle names the operator and does not propose to apply anything itself.
func TestOpenShiftNode(t *testing.T) {
	worker, err := os.ReadFile("../../testdata/hosts/openshift-node-healthy.txt")
	if err != nil {
		t.Fatal(err)
	}
	const role = "node-role.kubernetes.io/"
	master := filepath.Join(t.TempDir(), "master.txt")
	if err := os.WriteFile(master, []byte(strings.ReplaceAll(string(worker), role+"worker", role+"control-plane,"+role+"master")), 0o600); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		"../../testdata/hosts/openshift-node-healthy.txt": "openshift-node", "../../testdata/hosts/openshift-node-overloaded.txt": "openshift-node",
		master: "openshift-control-plane", "../../testdata/hosts/kvm-guest.txt": "virtual-guest",
	} {
		var doc RecommendResult
		if err := json.Unmarshal([]byte(answer(t, "recommend", "--root", root, "--output", "json")), &doc); err != nil {
			t.Fatal(err)
		}
		operated := want != "virtual-guest"
		if doc.Profile != want || (doc.Operator != nil) != operated {
			t.Errorf("%s: %s, operator %v", root, doc.Profile, doc.Operator)
		}
		if operated && !strings.HasPrefix(doc.Operator.Evidence, "/etc/os-release:8: OPENSHIFT_VERSION=4.1") {
			t.Errorf("%s: %s", root, doc.Operator.Evidence)
		}
		if text := answer(t, "diff", "--root", root); strings.Contains(text, "fettle tune") == operated {
			t.Errorf("%s: %s", root, text)
		}
	}
}

// The status of a recorded machine names the profile in TuneD's files, and never claims what the
// copy does not have.
func TestInCharge(t *testing.T) {
	hosts, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(hosts) < 10 {
		t.Fatal(hosts, err)
	}
	recorded := 0
	for _, root := range hosts {
		h, err := host.OpenRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		var doc tune.Status
		if err := json.Unmarshal([]byte(answer(t, "status", "--root", root, "--output", "json")), &doc); err != nil {
			t.Fatal(err)
		}
		first := doc.Headline.Lines[0]
		if b, err := h.Files.ReadFile("/etc/tuned/active_profile"); err == nil && strings.TrimSpace(string(b)) != "" {
			recorded++
			if name := strings.TrimSpace(string(b)); doc.Recorded == nil || doc.Recorded.Profile != name || !strings.Contains(first, "TuneD") || !strings.Contains(first, name) {
				t.Errorf("%s: %q, record %+v, want %s", root, first, doc.Recorded, name)
			}
		}
		if !strings.Contains(first, "in charge: ") || strings.Contains(strings.Join(doc.Headline.Lines, " "), "no profile of fettle active") {
			t.Errorf("%s: %q", root, doc.Headline.Lines)
		}
	}
	if recorded < 5 {
		t.Errorf("only %d machines with TuneD's record", recorded)
	}
}

// verify says drifted only of what fettle has written: a profile that was never applied differs.
func TestVerifyNotApplied(t *testing.T) {
	t.Parallel()
	for root, applied := range map[string]string{"": tune.AppliedNever, "../../testdata/hosts/debian-guest.txt": tune.AppliedUnknown} {
		args := []string{"verify", "virtual-guest", "--output", "json", "--state-dir", filepath.Join(t.TempDir(), "state")}
		if root != "" {
			args = append(args[:4], "--root", root)
		}
		var out, said strings.Builder
		Main("test", args, &out, &said)
		var v tune.Verification
		if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
			t.Fatal(err)
		}
		if v.Counts[plugin.Drifted] > 0 || v.Counts[plugin.Differs] == 0 || !v.NotInForce || v.Applied != applied {
			t.Errorf("%q: %v, not in force %v, applied %s", root, v.Counts, v.NotInForce, v.Applied)
		}
	}
}

// answer returns what a call prints, which must succeed.
func answer(t *testing.T, args ...string) string {
	t.Helper()
	var out, said strings.Builder
	if code := Main("test", args, &out, &said); code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, &said)
	}
	return out.String()
}
