package runpage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
)

// proofs compares each record of a directory with its page, and README.md with the list of
// records. With update it writes the pages and the list. It returns the differences.
func proofs(dir string, update bool) (wrong []string, err error) {
	records, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	want := map[string][]byte{}
	list := "# Proofs\n\nThese are records of real experiments and their pages. `fettle runs export` wrote the records; `fettle runs show --output html` wrote the pages. `make golden` writes the pages and this list again.\n\n\"Cannot tell yet\" does not mean \"no effect\": the interval still includes both zero and an effect that matters. Each experiment had eight minutes (`--budget 8m`). On this small, noisy virtual machine, some experiments need more runs; the verdict shows how many. `fettle prove --resume ID --budget 2h` continues an experiment.\n\n| proof | verdict | command | machine |\n|---|---|---|---|\n"
	for _, record := range records {
		runs, err := evidence.ReadFile(record)
		if err != nil {
			return nil, err
		}
		var page bytes.Buffer
		if err := writePage(&page, runs); err != nil {
			return nil, fmt.Errorf("%s: %w", record, err)
		}
		name := strings.TrimSuffix(filepath.Base(record), ".json")
		want[name+".html"] = page.Bytes()
		cell := strings.NewReplacer("|", `\|`, "\n", " ", "`", "'")
		for _, r := range runs {
			if r.ID == "" {
				wrong = append(wrong, record+" is the record of a run that has not ended")
			}
			list += fmt.Sprintf("| [%s](%s.html) ([record](%s.json)) | %s | `%s` | %d × %s, kernel %s |\n", name, name, name, cell.Replace(r.Verdict), cell.Replace(r.Command), r.Machine.CPUs, cell.Replace(r.Machine.CPU), cell.Replace(r.Machine.Kernel))
			// Records are kept: a newer fettle must give the same texts.
			var e prove.Evidence
			if err := json.Unmarshal(r.Body, &e); err != nil || r.Kind != "prove" {
				continue
			}
			if err := e.Again(); err != nil && !errors.As(err, new(*prove.Otherwise)) {
				wrong = append(wrong, record+": "+err.Error())
			}
		}
	}
	others, err := othersOf(dir)
	if err != nil {
		return nil, err
	}
	if len(records) > 0 {
		want["README.md"] = []byte(list + others)
	}
	for name, text := range want {
		path := filepath.Join(dir, name)
		if update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return nil, err
			}
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
			wrong = append(wrong, path+" does not match its record: run make golden")
		}
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.html"))
	for _, p := range pages {
		if want[filepath.Base(p)] == nil {
			wrong = append(wrong, p+" has no record")
		}
	}
	return wrong, err
}

// othersOf lists the Markdown pages of a directory: experiments that fettle prove did not
// run. A test of its own compares each of these pages with its record.
func othersOf(dir string) (list string, err error) {
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return "", err
	}
	for _, p := range pages {
		name := filepath.Base(p)
		if name == "README.md" {
			continue
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return "", err
		}
		title, _, _ := strings.Cut(string(text), "\n")
		if list == "" {
			list = "\nOther experiments, each with its own record (`make experiments` repeats them too):\n\n"
		}
		list += fmt.Sprintf("- [%s](%s)\n", strings.TrimPrefix(title, "# "), name)
	}
	return list, nil
}

// TestProofs compares the pages of docs/proofs with their records.
func TestProofs(t *testing.T) {
	wrong, err := proofs("../../../docs/proofs", os.Getenv("FETTLE_UPDATE_GOLDEN") == "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

// TestProofsTogether checks that proofs finds missing, changed and extra files.
func TestProofsTogether(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := experiment(t, 0.92, nil).Text()
	if err != nil {
		t.Fatal(err)
	}
	put("swap.json", text)
	check := func(update bool, want ...string) {
		t.Helper()
		wrong, err := proofs(dir, update)
		if err != nil || len(wrong) != len(want) {
			t.Fatalf("%v, %q, want %q", err, wrong, want)
		}
		for i, w := range want {
			if !strings.Contains(strings.Join(wrong, "\n"), w) {
				t.Errorf("%d: %q is not in %q", i, w, wrong)
			}
		}
	}
	check(false, "swap.html does not match", "README.md does not match")
	check(true)
	check(false)
	if list, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || !strings.Contains(string(list), "| [swap](swap.html) ([record](swap.json)) | faster by 8") {
		t.Errorf("%v: %s", err, list)
	}
	put("router.md", []byte("# Router: measured again\n\nText.\n"))
	check(false, "README.md does not match")
	check(true)
	if list, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || !strings.HasSuffix(string(list), "\n\n- [Router: measured again](router.md)\n") {
		t.Errorf("%v: %s", err, list)
	}
	put("other.html", []byte("<!doctype html>"))
	check(false, "other.html has no record")
	put("swap.html", []byte("<!doctype html>"))
	check(false, "other.html has no record", "swap.html does not match")
	put("swap.json", bytes.Replace(text, []byte("make -j2"), []byte("make -j3"), 1))
	if _, err := proofs(dir, true); err == nil || !strings.Contains(err.Error(), "was changed after it was recorded") {
		t.Error(err)
	}
}
