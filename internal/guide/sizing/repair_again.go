package sizing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
)

// Record is the file that records the lines of the other files in its directory. A later run that
// adds lines to a file keeps those of earlier runs.
const Record = ".fettle-fix.json"

// record is the content of Record.
type record struct {
	Schema string         `json:"schema"` // fettle/fix-ledger/v1
	Lines  []recordedLine `json:"lines"`
}

type recordedLine struct {
	File  string `json:"file"` // its name in rules
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// Artefacts returns the files that the findings' fixes need, and their record. The directory may
// have files of earlier runs; their lines stay first in each file. before is the record's text, or
// "". there reports whether the directory has a file; lines of a removed file are dropped. kept
// lists, by file, the lines of earlier runs that no current finding needs.
func Artefacts(findings []rule.Finding, before string, there func(name string) bool) (out []Artefact, kept map[string][]string, err error) {
	files, err := collect(findings)
	if err != nil || len(files) == 0 {
		return nil, nil, err
	}
	r := record{Schema: "fettle/fix-ledger/v1"}
	if before != "" {
		if err := json.Unmarshal([]byte(before), &r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w; move this record away, together with the files that fettle wrote", Record, err)
		}
	}
	earlier := r.Lines
	r.Lines = nil
	for _, l := range earlier {
		i := slices.IndexFunc(files, func(f *file) bool { return f.name == l.File })
		if i < 0 {
			r.Lines = append(r.Lines, l) // of a file that this run leaves unchanged
		}
	}
	kept = map[string][]string{}
	for _, f := range files {
		a, err := f.artefact()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if there(a.Name) {
			f.keep(earlier)
		}
		for _, l := range f.lines {
			r.Lines = append(r.Lines, recordedLine{f.name, l.Name, l.Value, l.why})
			if l.earlier {
				id, _, _ := strings.Cut(l.why, ":")
				kept[a.Name] = append(kept[a.Name], id+" ("+l.Name+")")
			}
		}
	}
	if out, err = repairArtefacts(files); err != nil {
		return nil, nil, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	return append(out, Artefact{Name: Record, What: "the lines of these files", Content: string(text) + "\n"}), kept, err
}

// keep puts earlier runs' lines before a file's own, without those that the file sets itself.
func (f *file) keep(earlier []recordedLine) {
	var old []line
	for _, l := range earlier {
		if l.File != f.name || slices.ContainsFunc(f.lines, func(x line) bool { return x.Name == l.Name }) {
			continue
		}
		old = append(old, line{Entry: rule.Entry{Name: l.Name, Value: l.Value}, why: l.Why, earlier: true})
	}
	f.lines = append(old, f.lines...)
}
