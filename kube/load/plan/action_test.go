package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const deploymentText = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d-{{.Iteration}}-{{.Replica}}, labels: {half: '{{mod .Replica 2}}'}}\nspec: {replicas: 2, template: {spec: {}}}\n"

// acting is a job of kube-burner that acts on existing objects.
func acting(name string, iterations int, parallel bool, actions ...Action) Stage {
	for i := range actions {
		actions[i].At = fmt.Sprint(name, ":", i+2)
		if actions[i].APIVersion == "" {
			actions[i].APIVersion = "apps/v1"
		}
	}
	return Stage{At: name + ":1", Name: name, Burner: true, Iterations: iterations, PerNamespace: 1, IfExists: Reuse, Actions: actions, Parallel: parallel, Rate: 10}
}

var ofJob = map[string]string{"kube-burner.io/job": "a"}

// TestActions tests the order of patches, deletions and reads, their objects, and the message
// without objects.
func TestActions(t *testing.T) {
	merge := Action{Do: Patch, Kind: "Deployment", Labels: map[string]string{"kube-burner.io/job": "a", "half": "1"}, PatchType: "application/merge-patch+json", Text: "spec: {replicas: {{.Iteration}}, n: {{.n}}}\n", File: "p.yml", Variables: json.RawMessage(`{"n":7}`)}
	l := &Load{Stages: []Stage{
		burnerStage("a", "x", 1, 3, deploymentText),
		burnerStage("b", "x", 1, 1, mapText),
		acting("p", 2, true, merge),
		acting("s", 2, false, Action{Do: Get, Kind: "Deployment", Labels: ofJob, After: time.Second}),
		acting("d", 1, false, Action{Do: Remove, Kind: "Deployment", Labels: ofJob, Gone: time.Minute}, Action{Do: Remove, Kind: "Pod", APIVersion: "v1", Labels: ofJob, Gone: time.Minute}),
		acting("e", 1, false, Action{Do: Remove, Kind: "Deployment", Labels: ofJob}),
	}}
	l.Stages[2].Wait, l.Stages[3].Wait, l.Stages[3].Between = time.Hour, time.Hour, 2*time.Second
	p := compile(t, l)
	var got []string
	for _, op := range p.Ops {
		switch op.Do {
		case Act:
			var of []string
			for i := op.From; i < op.To; i++ {
				a, object := p.Action(i)
				of = append(of, a.Do+" "+p.Name(object))
			}
			got = append(got, strings.Join(of, ", ")+" "+op.Every.String())
		case Gone:
			got = append(got, "gone "+op.Action.Kind+" "+op.Timeout.String())
		case Settle:
			got = append(got, fmt.Sprintf("settle %d-%d %v", op.From, op.To, op.Acted))
		case Pause:
			got = append(got, "pause "+op.Timeout.String())
		}
	}
	want := []string{
		"patch d-0-1, patch d-0-3 100ms", "patch d-0-1, patch d-0-3 100ms", "settle 0-4 true",
		"read d-0-1, read d-0-2, read d-0-3 100ms", "pause 1s", "settle 4-7 true", "pause 2s",
		"read d-0-1, read d-0-2, read d-0-3 100ms", "pause 1s", "settle 7-10 true", "pause 2s",
		"delete d-0-1, delete d-0-2, delete d-0-3 100ms", "gone Deployment 1m0s", " 100ms", "gone Pod 1m0s", " 100ms",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(p.Notes) != 2 || !strings.Contains(p.Notes[0], "; nothing is deleted; the job only waits until objects of controllers with these labels are gone") || !strings.Contains(p.Notes[1], "nothing done, because other clients' objects are never touched") {
		t.Errorf("%q", p.Notes)
	}
	body, media, err := p.Patch(2, "uid-9")
	if err != nil || media != "application/merge-patch+json" || string(body) != `{"metadata":{"uid":"uid-9"},"spec":{"n":7,"replicas":1}}` {
		t.Errorf("%s %s %v", body, media, err)
	}
	if !p.Removes(1) || p.Removes(0) || p.Removes(4) {
		t.Error("what is deleted")
	}
	if again := compile(t, l); again.Sum() != p.Sum() {
		t.Error("planned again, it is another plan")
	}
}

// TestPatches tests that a patch of any type applies only to the object with its UID.
func TestPatches(t *testing.T) {
	for media, x := range map[string]struct{ text, want string }{
		"application/json-patch+json":            {`[{"op":"add","path":"/metadata/labels/a","value":"{{.Iteration}}"}]`, `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"add","path":"/metadata/labels/a","value":"0"}]`},
		"application/merge-patch+json":           {`{"spec":{"replicas":1}}`, `{"metadata":{"uid":"u"},"spec":{"replicas":1}}`},
		"application/strategic-merge-patch+json": {"kind: Deployment\napiVersion: apps/v1\nmetadata: {labels: {a: b}}\n", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"a":"b"},"uid":"u"}}`},
		ApplyPatch:                               {"kind: Deployment\napiVersion: apps/v1\n", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d-0-1","uid":"u"}}`},
	} {
		p := compile(t, &Load{Stages: []Stage{burnerStage("a", "x", 1, 1, deploymentText), acting("p", 1, true, Action{Do: Patch, Kind: "Deployment", Labels: ofJob, PatchType: media, Text: x.text, File: "p"})}})
		if body, of, err := p.Patch(0, "u"); err != nil || of != media || string(body) != x.want {
			t.Errorf("%s: %s %s %v", media, body, of, err)
		}
	}
	for text, want := range map[string]string{"{{.no}}": "add no to the object's inputVars", "a: 1\n---\nb: 2\n": "want one document", "{{noSuch}}": "not defined"} {
		l := &Load{Stages: []Stage{burnerStage("a", "x", 1, 1, deploymentText), acting("p", 1, true, Action{Do: Patch, Kind: "Deployment", Labels: ofJob, PatchType: "application/merge-patch+json", Text: text, File: "p"})}}
		if _, err := Compile(t.Context(), l, "r", nil); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "p:2: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRenamedLabels tests that a selector of kube-burner 1 matches nothing, and that the note gives
// the reason.
func TestRenamedLabels(t *testing.T) {
	for label, want := range map[string]string{
		"kube-burner-job": "; kube-burner-job is a label of kube-burner 1, which version 2 calls kube-burner.io/job", "kube-burner-index": "calls kube-burner.io/index", "app": "",
	} {
		p := compile(t, &Load{Stages: []Stage{burnerStage("a", "x", 1, 1, deploymentText), acting("d", 1, false, Action{Do: Remove, Kind: "Deployment", Labels: map[string]string{label: "a"}})}})
		if len(p.Notes) != 1 || !strings.HasSuffix(p.Notes[0], want) || want == "" && strings.Contains(p.Notes[0], "kube-burner") {
			t.Errorf("%s: %q", label, p.Notes)
		}
	}
}
