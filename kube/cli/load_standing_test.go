package cli

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// TestLostJournal tests a run whose journal was emptied, truncated or removed while its objects
// exist: status, resume and undo report their number and delete nothing.
func TestLostJournal(t *testing.T) {
	const id = "20260101-000000-000"
	type o = map[string]any
	file := filepath.Join(t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte("ClusterLoader:\n  projects:\n  - {num: 2, basename: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := load.Read(file, load.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), l, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	labelled := "/api/v1/namespaces?labelSelector=" + url.QueryEscape(plan.RunLabel+"="+id) + "&limit=500"
	space := func(i int) o {
		return o{"metadata": o{"name": p.Name(i), "uid": fmt.Sprint("u", i), "labels": o{plan.RunLabel: id}, "annotations": o{plan.ObjectNote: fmt.Sprint(i)}}}
	}
	const command = "kubectl delete namespaces --all-namespaces -l fettle.dev/load-run=" + id
	two := "2 objects with the label fettle.dev/load-run=" + id + " exist in cluster http://"
	for name, c := range map[string]struct {
		keep int // so many lines of the journal; -1 for no file
		list []any
		verb string
		code int
		says []string
	}{
		"emptied, status":       {0, []any{space(0), space(1)}, "status", ui.Failed, []string{"has no header", two, command, "unreadable"}},
		"emptied, undo":         {0, []any{space(0), space(1)}, "undo", ui.Incomplete, []string{"has no header", two, "; not deleted, because not in the journal", command}},
		"emptied, resume":       {0, []any{space(0), space(1)}, "resume", ui.Incomplete, []string{"has no header", two, command}},
		"removed, undo":         {-1, []any{space(0), space(1)}, "undo", ui.Incomplete, []string{"no such file", two, command}},
		"cut to its head":       {1, []any{space(0), space(1)}, "undo", ui.Incomplete, []string{two, command, "0 objects removed"}},
		"cut, status":           {1, []any{space(1)}, "status", ui.Failed, []string{"1 object with the label", "stopped", command}},
		"emptied, none, undo":   {0, []any{}, "undo", ui.Failed, []string{"has no header", "; no object in cluster http://", "has the label fettle.dev/load-run=" + id}},
		"emptied, none, status": {0, []any{}, "status", ui.Done, []string{"has no header"}},
		"whole, status":         {3, []any{space(0), space(1)}, "status", ui.Done, []string{"stopped"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := loadrun.Store{Dir: t.TempDir()}
			j, err := s.Create(&loadrun.StoredRun{ID: id, Load: l}, loadrun.Header{Run: id, Began: time.Unix(1, 0), Cluster: "c1", Objects: p.Len(), Plan: p.Sum()})
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Begin(loadrun.Running); err != nil {
				t.Fatal(err)
			}
			if err := j.Reserve(p.Len()); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(s.Dir, id, "journal")
			text, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if c.keep < 0 {
				err = os.Remove(at)
			} else {
				err = os.WriteFile(at, []byte(strings.Join(strings.SplitAfter(string(text), "\n")[:c.keep], "")), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", apiServer(t, map[string]any{
				"/api/v1/namespaces/kube-system": o{"metadata": o{"name": "kube-system", "uid": "c1"}},
				labelled:                         o{"items": c.list},
			}))
			var printed bytes.Buffer
			code := runUntil(t.Context(), "devel", []string{"load", c.verb, "--state-dir", s.Dir}, &printed, &printed)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(printed.String(), want) {
					t.Errorf("%q is not said in:\n%s", want, &printed)
				}
			}
		})
	}
}
