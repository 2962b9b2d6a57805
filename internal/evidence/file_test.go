package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFile: exported or printed records can be read, and nothing else.
func TestFile(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	var texts [][]byte
	for n := range 2 {
		r := run(n)
		r.Command = "fettle prove -- sh -c 'a <b >c & d'"
		r.Body = json.RawMessage(`{"n": 1.50e0, "words": "\u003c b"}`)
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		stored, err := os.ReadFile(filepath.Join(s.Dir, r.ID+".json"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := r.Text()
		if err != nil || !bytes.Equal(text, stored) {
			t.Fatalf("%v: %s, and the store has %s", err, text, stored)
		}
		texts = append(texts, text)
	}
	ended := run(1)
	ended.Ended = ended.Began.Add(time.Hour)
	bench := run(1)
	bench.Kind = "bench-disk"
	without := func(r *Run) string {
		t.Helper()
		text, err := r.sealed()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(text), r.ID, "", 1)
	}
	open := run(1)
	open.Schema = Schema
	printed, err := json.Marshal(struct {
		*Run
		ExitCode int      `json:"exit_code"`
		Messages []string `json:"messages"`
	}{open, 0, []string{}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	for name, c := range map[string]struct {
		text  string
		runs  int
		fault string
	}{
		"one":           {string(texts[0]), 1, ""},
		"two":           {string(texts[0]) + string(texts[1]), 2, ""},
		"not ended":     {string(printed), 1, ""},
		"no id":         {without(ended), 0, "the record has no id; it should be " + ended.ID},
		"bench, no id":  {without(bench), 0, "the record has no id; it should be " + bench.ID},
		"another id":    {strings.Replace(string(texts[0]), `"id": "`, `"id": "0`, 1), 0, "was changed after it was recorded"},
		"other spaces":  {strings.ReplaceAll(string(texts[0]), "\n", "\n\t"), 1, ""},
		"empty":         {"", 0, "empty file"},
		"another":       {`{"schema":"fettle/plan/v1"}`, 0, `its schema is "fettle/plan/v1"`},
		"changed":       {strings.Replace(string(texts[0]), "faster by 0", "faster by 9", 1), 0, "was changed after it was recorded"},
		"body changed":  {strings.Replace(string(texts[0]), "1.50e0", "1.60e0", 1), 0, "was changed after it was recorded"},
		"cut":           {string(texts[0][:len(texts[0])-3]), 0, "not a record of a run"},
		"one and a bit": {string(texts[0]) + "{", 0, "not a record of a run"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		runs, err := ReadFile(file)
		if len(runs) != c.runs || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %d runs, %v", name, len(runs), err)
		}
		var damaged *DamagedError
		if changed := strings.Contains(c.fault, "changed") || strings.Contains(c.fault, "no id"); errors.As(err, &damaged) != changed || changed && damaged.Path != file {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runs, err := ReadFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error(runs)
	}
}
