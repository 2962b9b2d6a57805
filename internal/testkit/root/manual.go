package root

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Generated is the part of a manual page that is generated from the program's own tables,
// between the marks "<!-- begin Name -->" and "<!-- end Name -->".
type Generated struct{ Name, Text string }

// Manual compares generated parts with the page docs/NAME.md, or writes them to it if
// FETTLE_UPDATE_GOLDEN=1.
func Manual(t testing.TB, page string, parts ...Generated) {
	t.Helper()
	file := filepath.Join(Module(t), "docs", page)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, part := range parts {
		begin, end := "<!-- begin "+part.Name+" -->\n", "<!-- end "+part.Name+" -->"
		head, rest, ok := strings.Cut(text, begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("docs/%s has no marks for %s", page, part.Name)
		}
		text = head + begin + "\n" + strings.Trim(part.Text, "\n") + "\n\n" + end + tail
	}
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(text, string(b)); diff != "" {
		t.Errorf("docs/%s is not what the tables say; run make golden (-want +got):\n%s", page, diff)
	}
}

// Benchmark writes a table to its part of docs/benchmarks.md. The test fails for each promise in
// unmet, which the page names too.
func Benchmark(t testing.TB, part, table string, unmet []string) {
	t.Helper()
	if len(unmet) > 0 {
		table += fmt.Sprintf("\nNot met in this run: %s.\n", strings.Join(unmet, "; "))
	}
	t.Log(table)
	t.Setenv("FETTLE_UPDATE_GOLDEN", "1")
	Manual(t, "benchmarks.md", Generated{Name: part, Text: table})
	for _, u := range unmet {
		t.Errorf("not met: %s", u)
	}
}

// Cell escapes a text for a table cell of the manual.
func Cell(text string) string { return cell.Replace(text) }

var cell = strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, ">", `\>`, "[", `\[`, "_", `\_`)
