package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// TestLoadInterruptedInTheMiddle tests that Ctrl-C undoes a run and names what it could not remove.
// In a resume it removes nothing. A threshold of the run also applies to its resume.
func TestLoadInterruptedInTheMiddle(t *testing.T) {
	type o = map[string]any
	all := []rbacRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "create"}}, {NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
	s := &loadServer{rules: all, lost: map[string]bool{"configmaps": true, "namespaces": true}, used: map[string]bool{}, objects: map[string]map[string]any{
		"/api/v1/namespaces/kube-system": {"metadata": o{"name": "kube-system", "uid": "c1"}},
		"/api/v1/nodes/n":                {"metadata": o{"name": "n", "uid": "n"}, "status": o{"allocatable": o{"pods": "110"}, "conditions": []o{{"type": "Ready", "status": "True"}}}},
	}}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))
	for name, text := range map[string]string{
		"kubeconfig":  fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}]}`, server.URL),
		"load.yaml":   "ClusterLoader:\n  wait: 0\n  projects:\n  - num: 1\n    basename: ours\n    objects: [{num: 200, file: object.yaml}]\n",
		"none.yaml":   "ClusterLoader:\n  projects:\n  - num: 0\n    basename: ours\n    objects: [{num: 4, file: object.yaml}]\n",
		"object.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"m${IDENTIFIER}\"}}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// load runs a command, which is interrupted once so many objects were made; 0 for never.
	load := func(after, code int, args string, says ...string) {
		t.Helper()
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		made := 0
		s.mu.Lock()
		s.made = func() {
			if made++; made == after {
				interrupt()
			}
		}
		s.mu.Unlock()
		var printed bytes.Buffer
		got := runUntil(ctx, "devel", append([]string{"load", "--state-dir", "runs"}, strings.Fields(args)...), &printed, &printed)
		if got != code {
			t.Errorf("load %s: exit code %d, want %d\n%s", args, got, code, &printed)
		}
		for _, text := range says {
			if !strings.Contains(printed.String(), text) {
				t.Errorf("load %s does not say %q\n%s", args, text, &printed)
			}
		}
	}
	maps := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for at := range s.objects {
			if strings.Contains(at, "/configmaps/") {
				n++
			}
		}
		return n
	}
	load(0, ui.Usage, "run none.yaml", "the load creates nothing")
	// A machine that stands still for a while starts in one go what was due in its last second.
	load(5, ui.Incomplete, "run --rate 20/s --slo rate>1000/s load.yaml", "interrupted, and some objects of the run were not removed: at most ", "objects remain", "; if interrupted, continue with kubectl fettle load undo ")
	stood := maps()
	if stood == 0 || stood > 100 {
		t.Fatalf("%d stand", stood)
	}
	undoing := "has been undone, or its undo has started"
	load(0, ui.Refused, "resume", undoing)
	s.mu.Lock()
	s.rules[0].Verbs = append(s.rules[0].Verbs, "delete")
	s.mu.Unlock()
	load(0, ui.Done, "undo")
	if maps() != 0 {
		t.Fatalf("%d stand", maps())
	}

	load(5, ui.Partial, "run --keep --rate 20/s --slo rate>1000/s load.yaml", "interrupted; the objects of the run remain", "; to remove its objects: kubectl fettle load undo")
	stood = maps()
	load(3, ui.Partial, "resume --rate 20/s", "interrupted; the objects of the run remain", "made before")
	if now := maps(); stood == 0 || now <= stood || now > 150 {
		t.Errorf("after an interrupted resume %d stand, before it %d", now, stood)
	}
	load(0, ui.GateNotMet, "resume --rate 500/s", "rate > 1000/s is not met")
	if now := maps(); now != 200 {
		t.Errorf("%d stand", now)
	}
	load(0, ui.Done, "undo", "201 objects removed")
	load(5, ui.Interrupted, "run --rate 20/s load.yaml", "interrupted, undone")
	if maps() != 0 {
		t.Errorf("%d stand", maps())
	}
}

// TestLeftStanding tests that remaining objects decide the exit code, rather than the reason for
// the end of the run.
func TestLeftStanding(t *testing.T) {
	x := &LoadRun{Removed: 3, Absent: 1}
	x.Objects.Created, x.Objects.Before = 4, 2
	err := errors.Join(x.leftStanding(errors.New("no answer"), "r1", true), ui.Exit(ui.Interrupted, errors.New("interrupted")))
	if ui.Code(err) != ui.Incomplete || !strings.Contains(err.Error(), "at most 2 objects remain: no answer") {
		t.Errorf("%d %v", ui.Code(err), err)
	}
}
