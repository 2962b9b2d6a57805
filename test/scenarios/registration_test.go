package scenarios

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/testkit/product"
)

// fettle runs a command of fettle load scenario, expects an exit code, and returns its JSON.
func fettle[T any](t *testing.T, code int, args ...string) *T {
	t.Helper()
	cmd := exec.Command("fettle", append([]string{"load", "scenario", "--output", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "SATELLITE_CREDENTIALS=YWRtaW46Y2hhbmdlbWU=", "ACTIVATION_KEY=load")
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("fettle load scenario %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), err, code, talk.String(), out)
	}
	var run struct{ Body json.RawMessage }
	if err := json.Unmarshal(out, &run); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := out
	if run.Body != nil {
		text = run.Body
	}
	x := new(T)
	if err := json.Unmarshal(text, x); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return x
}

// run runs a shipped scenario, in which everything must succeed.
func run(t *testing.T, args ...string) *scenario.Result {
	t.Helper()
	x := fettle[scenario.Result](t, 0, args...)
	if x.Whole.Errors != 0 || x.Whole.Runs == 0 || len(x.Gates) == 0 {
		t.Fatalf("%s: %+v %+v", x.Text, x.Whole, x.Gates)
	}
	return x
}

// TestRegistration registers hosts directly and through a Capsule, and removes exactly what was
// made: not a host that was there before, nor one that was changed since.
func TestRegistration(t *testing.T) {
	t.Parallel()
	if !inside(t, nil) {
		return
	}
	database(t)
	foreman(t, puma{2, 5, 5})
	capsule(t)
	if status, text := call(t, "POST", foremanURL+"/api/v2/hosts", `{"host": {"name": "t-before"}}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	names := func() string {
		return product.SQL(t, "foreman", "SELECT string_agg(name, ' ' ORDER BY name) FROM hosts")
	}
	for _, way := range [][]string{
		{"registration"},
		{"registration-capsule", "--server", "capsule=" + capsuleURL, "--server", "proxy=" + capsuleURL},
	} {
		t.Run(way[0], func(t *testing.T) {
			x := run(t, append(way, "--server", "foreman="+foremanURL, "--organization", "Default", "--prefix", "t-", "--hosts", "30")...)
			if x.StandIn != "foreman" || x.Whole.Runs != 30 || x.Created.Known != 30 {
				t.Errorf("%q %+v %+v", x.StandIn, x.Whole, x.Created)
			}
			if n := product.SQL(t, "foreman", "SELECT count(*) || ' ' || count(uuid) FROM hosts"); n != "31 30" {
				t.Errorf("hosts, with a consumer: %s", n)
			}
			if n := product.SQL(t, "foreman", "SELECT count(*) FROM packages"); n != fmt.Sprint(30*400) {
				t.Errorf("%s packages", n)
			}
			id := product.SQL(t, "foreman", "SELECT id FROM hosts WHERE name = 't-000007'")
			if status, text := call(t, "PUT", foremanURL+"/api/v2/hosts/"+id, `{"host": {"comment": "mine now"}}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			u := fettle[scenario.Undone](t, 7, "undo", x.RunID)
			if u.Removed != 29 || len(u.Objects) != 1 || u.Objects[0].State != scenario.StateChanged || u.Objects[0].ID != id {
				t.Errorf("%+v", u)
			}
			if left := names(); left != "t-000007 t-before" {
				t.Errorf("left: %s", left)
			}
			call(t, "DELETE", foremanURL+"/api/v2/hosts/"+id, "")
		})
	}
}

// TestCapsuleSteps tests that both registrations send the same requests.
func TestCapsuleSteps(t *testing.T) {
	requests := func(name string) string {
		text := product.Read(t, "../../scenarios/"+name+".yaml")
		_, text, _ = strings.Cut(text, "\nload:\n")
		text = strings.NewReplacer("${capsule}", "${foreman}", "${proxy}", "${foreman}").Replace(text)
		text, _, _ = strings.Cut(text, "\nthresholds:\n")
		return text
	}
	direct, capsule := requests("registration"), requests("registration-capsule")
	if direct != capsule || !strings.Contains(direct, "${foreman}/rhsm/consumers") {
		t.Error("registration and registration-capsule have different steps")
	}
}
