package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine/scale"
)

const (
	machineSets = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinesets"
	machineList = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machines"
)

// edited returns the machines with one text of a list replaced by another, everywhere.
func edited(path string, changes ...string) map[string]any {
	m := machines()
	m[path] = json.RawMessage(strings.NewReplacer(changes...).Replace(string(m[path].(json.RawMessage))))
	return m
}

// TestScaleOfWhatIsNotKnown tests unknown zones, machines and records, and machines that have not
// joined: each is reported, with its exit code and what to do.
func TestScaleOfWhatIsNotKnown(t *testing.T) {
	const node = `,"nodeRef":{"name":"workers-a-1"}`
	old := fmt.Sprintf(`{"metadata":{"creationTimestamp":%q,"name":"workers-a-1"`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	absent := edited(machineList, `{"metadata":{"name":"workers-a-1"`, old, `"phase":"Running"`+node, `"phase":"Provisioning"`)
	none := machines()
	none[machineList] = json.RawMessage(`{"items":[]}`)
	for _, c := range []struct {
		cluster map[string]any
		args    string
		code    int
		want    []string
	}{
		{edited(machineList, `"machine.openshift.io/zone"`, `"zone"`), "plan workers-a workers-b --to 6", ui.Done, []string{"1     workers-b    not known  1 to 3", "zone of workers-a, workers-b unknown"}},
		{none, "plan workers-a workers-b --to 2", ui.Failed, []string{"no Machine objects found for the machine sets in openshift-machine-api (workers-a is to have 3", "kubectl -n openshift-machine-api get machines.machine.openshift.io"}},
		{none, "plan workers-a --roll", ui.Failed, []string{"no Machine objects found"}},
		{absent, "plan workers-a workers-b --to 3", ui.Done, []string{"workers-a    zone-a  3 to 2    the machines are gone; if not, stop here  10m", "in this order\n- workers-a-1", "no pods to move: workers-a-1"}},
		{absent, "plan workers-a --to 3 --join-timeout 5m", ui.Done, []string{"3 machines to 3: nothing to do\n", "the sets already have 3 machines in total; nothing to do; not joined yet: workers-a-1 (phase Provisioning)\n"}},
		{edited(machineSets, `"replicas":1`, `"replicas":2`), "plan workers-b --to 2", ui.Done, []string{"nothing to do; not created yet: 1 machine\n"}},
		{machines(), "plan workers-b --to 1", ui.Done, []string{"1 machine to 1: nothing to do\n", "already have 1 machine in total; nothing to do\n"}},
		{machines(), "execute workers-b --to 1 --yes", ui.Done, []string{"nothing to do: the machine sets already have 1 machine\n"}},
		{map[string]any{machineSets: json.RawMessage(`{"items":[]}`), machineList: json.RawMessage(`{"items":[]}`), machineSets[:len(machineSets)-len("sets")] + "healthchecks": json.RawMessage(`{"items":[]}`)}, "plan foo --to 1", ui.Usage, []string{"machine set foo not found in openshift-machine-api; this namespace has no machine sets\n"}},
		{machines(), "plan workers-a --to 4 --join-timeout 90s", ui.Done, []string{"1m30s"}},
		{machines(), "plan workers-a --to 2 --patience 3m", ui.Done, []string{"  6m  "}},
		{machines(), "plan workers-a --to 2 --patience 0s", ui.Usage, []string{`--patience "0s": want 1s to 24h`}},
		{machines(), "plan workers-a --to 2 --join-timeout 0s", ui.Usage, []string{`--join-timeout "0s": want 1s to 24h`}},
		{absent, "execute workers-a --to 5 --yes", ui.Refused, []string{"machine workers-a-1 of machine set workers-a has no node, more than 10m0s after its creation (phase Provisioning)", "see kubectl -n openshift-machine-api describe machines.machine.openshift.io workers-a-1 for why it has not joined; to give up the missing machines: kubectl fettle scale execute workers-a --to 2;"}},
		{edited(machineSets, `"name":"workers-a"`, `"name":"workers-a","uid":"b","annotations":{"fettle.dev/roll":"{\"replicas\":0,\"machines\":[],\"machine_set_uid\":\"a\"}"}`), "execute workers-a --roll --yes", ui.Refused, []string{"machine set workers-a, annotation fettle.dev/roll: copied from the machine set with UID a", "kubectl annotate machinesets.machine.openshift.io workers-a -n openshift-machine-api fettle.dev/roll-"}},
		{edited(machineSets, `"name":"workers-a"`, `"name":"workers-a","uid":"a","annotations":{"fettle.dev/roll":"{\"replicas\":0,\"machines\":[\"workers-a-0\"],\"machine_set_uid\":\"a\"}"}`), "plan workers-a --roll", ui.Refused, []string{"fettle.dev/roll: 0 replicas but machines named: the roll would empty the set"}},
	} {
		code, out, errs := run(t, append([]string{"--kubeconfig", apiServer(t, c.cluster), "scale"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, want, out, errs)
			}
		}
	}
}

// talk collects what a verb prints while it runs.
type talk struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (x *talk) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.Write(p)
}

func (x *talk) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.String()
}

// interruptedAt runs a verb and interrupts it after a certain message. The interruption must take
// effect at once, not at the next poll of a wait; on a busy machine it is tried several times.
func interruptedAt(t *testing.T, said string, args ...string) (code int, text string) {
	t.Helper()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		var out talk
		done := make(chan int, 1)
		go func() { done <- runUntil(ctx, "devel", args, &out, &out) }()
		if !root.Eventually(time.Minute, func() bool { return strings.Contains(out.String(), said) }) {
			cancel()
			t.Fatalf("it never said %q: exit code %d\n%s", said, <-done, out.String())
		}
		began := time.Now()
		cancel()
		if code = <-done; time.Since(began) < scale.DefaultInterval/2 {
			return code, out.String()
		}
	}
	t.Errorf("ten interruptions were seen after %s each, or later", scale.DefaultInterval/2)
	return code, text
}

// TestScaleIsInterrupted tests that Ctrl-C ends a wait or the question at once, and that the state
// is reported.
func TestScaleIsInterrupted(t *testing.T) {
	wanting := apiServer(t, edited(machineSets, `"replicas":3`, `"replicas":4`))
	code, text := interruptedAt(t, "waiting until ", "scale", "execute", "workers-a", "--to", "6", "--yes", "--kubeconfig", wanting)
	if code != ui.Interrupted || !strings.Contains(text, "s of 10m0s): machine set workers-a: want 4 machines, has 3") || !strings.Contains(text, "interrupted; machine sets unchanged, no node left cordoned by this call") || !strings.Contains(text, "run the same call to start again") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	// Two nodes that an earlier call has cordoned: the machine of the one is being deleted,
	// that of the other stays. A third one has another cordon.
	kept := edited(machineSets, `"replicas":3`, `"replicas":4`)
	kept[machineList] = json.RawMessage(strings.Replace(string(kept[machineList].(json.RawMessage)), `{"metadata":{"name":"workers-a-1"`, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","name":"workers-a-1"`, 1))
	nodes := kept["/api/v1/nodes"].(core.NodeList)
	for i := range nodes.Items {
		nodes.Items[i].Spec.Unschedulable = true
		if nodes.Items[i].Name != "workers-b-0" {
			nodes.Items[i].Annotations = map[string]string{cluster.Cordoned: scale.CordonReason + ": its machine is removed"}
		}
	}
	nodes.Items[0].Annotations = nil
	code, text = interruptedAt(t, "waiting until ", "scale", "execute", "workers-a", "--to", "6", "--yes", "--kubeconfig", apiServer(t, kept))
	if want := "interrupted; machine sets unchanged, no node left cordoned by this call; node workers-a-1 is still cordoned by an earlier call (its machine is being removed); node workers-a-2 is still cordoned by an earlier call (the next call for its machine set uncordons it)\n"; code != ui.Interrupted || !strings.Contains(text, want) {
		t.Errorf("exit code %d:\n%swant %q", code, text, want)
	}
	stdin := os.Stdin
	_, os.Stdin = root.Terminal(t)
	code, text = interruptedAt(t, "Execute this plan? [y/N]", "scale", "execute", "workers-a", "--to", "4", "--kubeconfig", apiServer(t, machines()))
	os.Stdin = stdin
	if code != ui.Interrupted || !strings.Contains(text, "interrupted; machine sets unchanged, no node left cordoned by this call") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// TestScaleEnd tests the result of a scale, by its changes and its remains.
func TestScaleEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	asked := func() *scale.Run {
		r := scale.New(nil, scale.Options{})
		r.Changed, r.Asked = true, []scale.Resize{{Set: "a", From: 3, To: 5}, {Set: "b", From: 1, To: 2}, {Set: "a", From: 5, To: 6}}
		return r
	}
	noted := scale.New(nil, scale.Options{})
	noted.Changed = true
	not := &scale.NotCome{Namespace: "fleet", Machines: []scale.Absent{{Name: "a-7", Why: "machine a-7 of machine set a has no node (phase Provisioning)"}}, Back: 5, Late: time.Minute}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		run  *scale.Run
		o    scaleOptions
		code int
		want string
		hint string
	}{
		"interrupted, nothing changed": {ended, context.Canceled, scale.New(nil, scale.Options{}), scaleOptions{}, ui.Interrupted, "interrupted; machine sets unchanged, no node left cordoned by this call", "run the same call to start again"},
		"interrupted":                  {ended, context.Canceled, asked(), scaleOptions{}, ui.Partial, "interrupted: machine set a was changed from 3 to 6 machines, machine set b was changed from 1 to 2 machines; not reverted", "run the same call to continue"},
		"interrupted, a roll":          {ended, context.Canceled, noted, scaleOptions{}, ui.Partial, "interrupted: the machines to replace are recorded", "run the same call to continue"},
		"not given back":               {ended, errors.Join(context.Canceled, scale.ErrLeft), scale.New(nil, scale.Options{}), scaleOptions{}, ui.Incomplete, "could not be removed", "the next kubectl fettle scale execute of these machine sets removes it"},
		"not given back, and changed":  {t.Context(), scale.ErrLeft, asked(), scaleOptions{}, ui.Partial, "could not be removed", "the next kubectl fettle scale execute of these machine sets removes it"},
		"not come":                     {t.Context(), not, asked(), scaleOptions{}, ui.Partial, "after 1m0s: machine a-7 of machine set a has no node (phase Provisioning); machine set a was changed from 3 to 6", "see kubectl -n fleet describe machines.machine.openshift.io a-7 for why it has not joined; to give up the missing machines: kubectl fettle scale execute a b -n fleet --to 5;"},
		"not come, a roll":             {t.Context(), not, asked(), scaleOptions{roll: true}, ui.Partial, "after 1m0s", "; the same call first reverts this and then continues"},
		"a lease that is none":         {t.Context(), scale.ErrLease, scale.New(nil, scale.Options{}), scaleOptions{}, ui.Refused, "lease", ""},
	} {
		err := scaleEnd(c.ctx, c.err, c.run, "fleet", []string{"a", "b"}, c.o)
		var e *ui.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
