package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/logformat"
)

// TestFixtures tests logs of real programs, and logs from documentation: the detected format, the
// unit, and every field of the second line (testdata/README.md names programs, versions and
// commands). FETTLE_UPDATE_GOLDEN=1 writes the results.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("../../logformat/testdata/*/*.log")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	var got strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel("../../logformat/testdata", file)
		fmt.Fprintf(&got, "# %s\n", rel)
		describe(&got, text)
	}
	const golden = "../../logformat/testdata/fields.txt"
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	is, was := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	of := ""
	for i := range max(len(is), len(was)) {
		a, b := at(is, i), at(was, i)
		if strings.HasPrefix(b, "# ") {
			of = b
		}
		if a != b {
			t.Fatalf("%s:%d (%s): %s, want %s", golden, i+1, of, a, b)
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// describe returns the detected format of a log, and the fields of its second line.
func describe(w *strings.Builder, text []byte) {
	f, err := logformat.Detect(text, nil)
	if several := (*logformat.AmbiguousError)(nil); errors.As(err, &several) {
		w.WriteString("refused\n")
		for _, c := range several.Choices {
			fmt.Fprintf(w, "  --format '%s'  %s\n", c.Text, c.What)
		}
		return
	}
	if err != nil {
		fmt.Fprintf(w, "%v\n", err)
		return
	}
	fmt.Fprintf(w, "%s: %s\n", f.Name, f.Why)
	reader := NewReader(f)
	unread, second := 0, Request{}
	var fields []string
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if l := reader.Read([]byte(line), &second); l == logformat.BadLine {
			unread++
		}
		if i != 1 {
			continue
		}
		for k := range f.Fields {
			field := &f.Fields[k]
			unit := ""
			if field.Kind == logformat.Duration {
				unit = " in " + logformat.UnitName(field.Unit)
			}
			fields = append(fields, fmt.Sprintf("  %s%s: %s", field.Name, unit, second.Field(k)))
		}
		fields = append(fields, fmt.Sprintf("  = at %d us, for %d us, status %d, %s %s", second.Time, second.Duration, second.Status, second.Method, second.Path))
	}
	fmt.Fprintf(w, "%d lines not read\n%s\n", unread, strings.Join(fields, "\n"))
}
