package profiles_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/profiles"
	"github.com/google/go-cmp/cmp"
)

// update writes the generated parts of the manual anew (make golden).
var update = os.Getenv("FETTLE_UPDATE_GOLDEN") == "1"

const manual = "../docs/070-profiles.md"

// TestManual holds the generated tables of the manual against the profiles.
func TestManual(t *testing.T) {
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	text := fill(t, string(b), "refusals", refusalTable())
	text = fill(t, text, "values", valueTables(t))
	for _, name := range want {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the manual does not name %s", name)
		}
	}
	if update {
		if err := os.WriteFile(manual, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(text, string(b)); diff != "" {
		t.Errorf("%s is not what the profiles say; run make golden (-want +got):\n%s", manual, diff)
	}
}

// fill replaces what stands between a part's marks.
func fill(t *testing.T, text, part, with string) string {
	t.Helper()
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for %s", manual, part)
	}
	return head + begin + with + end + tail
}

func refusalTable() string {
	var w strings.Builder
	w.WriteString("\n| name | profiles | guidance | why not | source |\n|---|---|---|---|---|\n")
	for _, r := range profiles.Refusals {
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", r.ID, strings.Join(r.Profiles, ", "), r.Guidance, r.Reason, r.Source)
	}
	w.WriteString("\n")
	return w.String()
}

func valueTables(t *testing.T) string {
	var w strings.Builder
	for _, name := range want {
		fmt.Fprintf(&w, "\n### %s\n\n", name)
		var rows strings.Builder
		section, devices, source := "", "", ""
		for _, line := range strings.Split(read(t, name+"/tuned.conf"), "\n") {
			key, value, _ := strings.Cut(line, "=")
			switch {
			case strings.HasPrefix(line, "["):
				section, devices = strings.Trim(line, "[]"), ""
			case strings.HasPrefix(line, "# source: "):
				source = strings.TrimPrefix(line, "# source: ")
			case key == "summary":
				fmt.Fprintf(&w, "%s.", value)
			case key == "include":
				fmt.Fprintf(&w, " Includes `%s`.", value)
			case key == "devices" || key == "devices_udev_regex":
				devices = " (" + value + ")"
			case source != "" && line != "" && line[0] != '#':
				cell := strings.NewReplacer("|", `\|`, "*", `\*`)
				fmt.Fprintf(&rows, "| %s%s | %s | %s | %s |\n", section, cell.Replace(devices), cell.Replace(key), cell.Replace(value), cell.Replace(source))
				source = ""
			}
		}
		w.WriteString("\n")
		if rows.Len() > 0 {
			fmt.Fprintf(&w, "\n| section | option | value | source |\n|---|---|---|---|\n%s", rows.String())
		}
	}
	w.WriteString("\n")
	return w.String()
}
