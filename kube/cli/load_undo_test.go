package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// loadServed runs commands of load against a server, with its own state directory, and returns the
// exit code and all output.
type loadServed struct {
	*loadServer
	t *testing.T
	// before receives each request; true means that it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
}

// serveLoad starts a server that allows everything, with a file load.yaml of a namespace with four
// config maps.
func serveLoad(t *testing.T) *loadServed {
	t.Helper()
	type o = map[string]any
	s := &loadServed{t: t, loadServer: &loadServer{
		rules: []rbacRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "create", "delete", "watch"}}},
		lost:  map[string]bool{"namespaces": true, "configmaps": true}, used: map[string]bool{},
		objects: map[string]map[string]any{"/api/v1/namespaces/kube-system": {"metadata": o{"name": "kube-system", "uid": "c1"}}},
	}}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.before == nil || !s.before(w, r) {
			s.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))
	for name, text := range map[string]string{
		"kubeconfig":   fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}]}`, h.URL),
		"load.yaml":    "ClusterLoader:\n  wait: 0\n  projects:\n  - {num: 1, basename: ours, objects: [{num: 4, file: objects.yaml}]}\n",
		"objects.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"m${IDENTIFIER}\"}}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *loadServed) load(ctx context.Context, words string) (int, string) {
	s.t.Helper()
	var printed bytes.Buffer
	code := runUntil(ctx, "devel", append([]string{"load", "--state-dir", "runs"}, strings.Fields(words)...), &printed, &printed)
	return code, printed.String()
}

// made runs the load, and returns the run's name.
func (s *loadServed) made() string {
	s.t.Helper()
	if code, said := s.load(s.t.Context(), "run load.yaml --beyond-maximums"); code != ui.Done {
		s.t.Fatalf("exit code %d: %s", code, said)
	}
	runs, err := os.ReadDir("runs")
	if err != nil || len(runs) == 0 {
		s.t.Fatal(runs, err)
	}
	return runs[len(runs)-1].Name()
}

func wantSaid(t *testing.T, code int, said string, want int, words ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q is not said in:\n%s", w, said)
		}
	}
}

// TestUndoInterrupted tests that an interrupted undo reports the objects that are being removed and
// how to continue, with another exit code than a complete undo.
func TestUndoInterrupted(t *testing.T) {
	s := serveLoad(t)
	id := s.made()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var taken atomic.Bool
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			if taken.Load() && r.URL.Path == "/api/v1/namespaces" { // it looks whether it has gone
				cancel()
			}
			return false
		}
		taken.Store(true)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Status"}`) // taken, and the namespace stays for a while
		return true
	}
	code, said := s.load(ctx, "undo")
	wantSaid(t, code, said, ui.Incomplete, "0 objects removed", "the namespace ours0 is still being removed by the server",
		"interrupted; the undo of run "+id+" is incomplete", "to continue: kubectl fettle load undo "+id)
	s.before = nil
	code, said = s.load(t.Context(), "status")
	wantSaid(t, code, said, ui.Done, "undo incomplete")
	code, said = s.load(t.Context(), "undo")
	wantSaid(t, code, said, ui.Done, "5 objects removed")
}

// TestLostLoad tests a run whose load is missing, unreadable or changed: status, undo and resume
// report its objects in the cluster and the command that deletes them, and change nothing.
func TestLostLoad(t *testing.T) {
	for name, c := range map[string]struct {
		change func(text []byte) []byte // nil for removing the file
		why    string
	}{
		"gone":    {nil, "file missing"},
		"cut":     {func(text []byte) []byte { return text[:len(text)/2] }, "changed since the run wrote it"},
		"changed": {func(text []byte) []byte { return bytes.Replace(text, []byte(`"ours`), []byte(`"oars`), 1) }, "changed since the run wrote it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveLoad(t)
			id := s.made()
			file := filepath.Join("runs", id, "load.json")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if c.change == nil {
				err = os.Remove(file)
			} else {
				err = os.WriteFile(file, c.change(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			// A copy, with the label alone, is not an object of the run.
			s.objects["/api/v1/namespaces/theirs/configmaps/m"] = map[string]any{"metadata": map[string]any{"name": "m", "namespace": "theirs", "uid": "x", "labels": map[string]any{"fettle.dev/load-run": id}}}
			there := len(s.objects)
			words := []string{
				"load.json is damaged: " + c.why, "5 objects with the label fettle.dev/load-run=" + id + " exist in cluster http://",
				"kubectl delete configmaps,namespaces --all-namespaces -l fettle.dev/load-run=" + id,
			}
			for verb, want := range map[string]int{"undo": ui.Incomplete, "resume": ui.Incomplete, "status": ui.Failed} {
				code, said := s.load(t.Context(), verb)
				wantSaid(t, code, said, want, words...)
			}
			if len(s.objects) != there {
				t.Errorf("there were %d objects, and are %d", there, len(s.objects))
			}
			// On another cluster nothing is looked for.
			s.objects["/api/v1/namespaces/kube-system"]["metadata"].(map[string]any)["uid"] = "c2"
			code, said := s.load(t.Context(), "undo")
			wantSaid(t, code, said, ui.Refused, "it was made on another cluster")
			s.objects["/api/v1/namespaces/kube-system"]["metadata"].(map[string]any)["uid"] = "c1"
			// Given back, it is undone as any other.
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			code, said = s.load(t.Context(), "undo")
			wantSaid(t, code, said, ui.Done, "5 objects removed")
		})
	}
}

// TestOtherPlan tests a run of another version, whose load now has another plan: this is reported,
// and its objects are found anyway.
func TestOtherPlan(t *testing.T) {
	s := serveLoad(t)
	s.made()
	l, err := load.Read("load.yaml", load.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const id = "20990101-000000-000"
	j, err := loadrun.Store{Dir: "runs"}.Create(&loadrun.StoredRun{ID: id, Load: l}, loadrun.Header{Run: id, Began: time.Unix(1, 0), Cluster: "c1", Objects: 5, Plan: "of another version"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	s.objects["/api/v1/namespaces/ours7"] = map[string]any{"metadata": map[string]any{"name": "ours7", "uid": "x", "labels": map[string]any{"fettle.dev/load-run": id}, "annotations": map[string]any{"fettle.dev/load-object": "0"}}}
	code, said := s.load(t.Context(), "undo "+id)
	wantSaid(t, code, said, ui.Incomplete, "cannot rebuild the plan of run "+id+": made by another version", "1 object with the label fettle.dev/load-run="+id+" exists",
		"kubectl delete namespaces --all-namespaces -l fettle.dev/load-run="+id)
}

// TestVisitFails tests that a failed phase of an experiment does not suggest a resume, which would
// continue another run. A failed run suggests it, with the run's name.
func TestVisitFails(t *testing.T) {
	s := serveLoad(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/configmaps") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","code":422,"message":"not today"}`)
		return true
	}
	code, said := s.load(t.Context(), "run load.yaml --beyond-maximums --for-prove")
	wantSaid(t, code, said, ui.Partial, "4 of 5 objects could not be created: ", "not today", "a run of fettle prove cannot be resumed; fix the reported cause and start again")
	if strings.Contains(said, "load resume") {
		t.Errorf("a phase is offered for a resume: %s", said)
	}
	code, said = s.load(t.Context(), "run load.yaml --beyond-maximums")
	runs, err := os.ReadDir("runs")
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	wantSaid(t, code, said, ui.Partial, "kubectl fettle load resume "+runs[0].Name()+" tries them again")
}

// TestUnnoted tests objects that a journal covers without a result: status finds them in the
// cluster, and undo removes them. A reused namespace does not count as a remaining object of an
// undone run.
func TestUnnoted(t *testing.T) {
	s := serveLoad(t)
	s.objects["/api/v1/namespaces/theirs0"] = map[string]any{"metadata": map[string]any{"name": "theirs0", "uid": "t0"}}
	text, err := os.ReadFile("load.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("load.yaml", append(text, "  - {num: 1, basename: theirs, ifexists: reuse, objects: [{num: 1, file: objects.yaml}]}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	id := s.made()
	file := filepath.Join("runs", id, "journal")
	if text, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if len(line) > 9 && line[9] != 'c' {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	there := func(phase string, want int) {
		t.Helper()
		code, said := s.load(t.Context(), "status")
		wantSaid(t, code, said, ui.Done)
		for line := range strings.Lines(said) {
			if f := strings.Fields(strings.Replace(line, phase, "PHASE", 1)); len(f) > 4 && f[0] == id {
				if f[1] != "PHASE" || f[3] != fmt.Sprint(want) {
					t.Errorf("want %d there and %s: %s", want, phase, line)
				}
				return
			}
		}
		t.Errorf("no run: %s", said)
	}
	there("ended", 7) // six that the journal does not say, and the one that was reused
	code, said := s.load(t.Context(), "undo")
	wantSaid(t, code, said, ui.Done, "6 objects removed")
	there("undone", 0)
}

// TestEmptyName tests that an empty name, as from an unset variable, does not select the built-in
// load.
func TestEmptyName(t *testing.T) {
	for _, verb := range []string{"run", "plan"} {
		code, _, errs := run(t, "load", verb, "")
		wantSaid(t, code, errs, ui.Usage, "empty file name; name a load file, or leave the name out for the built-in load")
	}
}

// TestDeleteKept tests that an earlier run that ifexists: delete cannot undo is reported with the
// reason.
func TestDeleteKept(t *testing.T) {
	s := serveLoad(t)
	text, err := os.ReadFile("load.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("load.yaml", bytes.Replace(text, []byte("basename: ours"), []byte("basename: ours, ifexists: delete"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	id := s.made()
	s.objects["/api/v1/namespaces/ours0/configmaps/theirs"] = map[string]any{"metadata": map[string]any{"name": "theirs", "namespace": "ours0", "uid": "x", "labels": map[string]any{"fettle.dev/load-run": id}}}
	code, said := s.load(t.Context(), "run load.yaml --beyond-maximums")
	wantSaid(t, code, said, ui.Incomplete, "cannot undo run "+id+", whose namespaces already exist (ifexists: delete): Namespace ours0 not deleted: it holds configmaps/theirs, not created by this run")
	if s.objects["/api/v1/namespaces/ours0/configmaps/theirs"] == nil {
		t.Error("it is gone")
	}
}
