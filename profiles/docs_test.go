package profiles_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/profiles"
)

// TestManual compares the generated tables of the manual with the profiles.
func TestManual(t *testing.T) {
	openshift := func(name string) bool { return strings.HasPrefix(name, "openshift") }
	root.Manual(t, "profiles.md", root.Generated{Name: "refusals", Text: refusalTable()})
	root.Manual(t, "profile-values.md", root.Generated{Name: "values", Text: valueTables(t, func(name string) bool { return !openshift(name) })})
	root.Manual(t, "profile-values-openshift.md", root.Generated{Name: "values", Text: valueTables(t, openshift)})
	text, err := os.ReadFile("../docs/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("the manual does not name %s", name)
		}
	}
}

func refusalTable() string {
	var w strings.Builder
	w.WriteString("| name | profiles | guidance | why not | source |\n|---|---|---|---|---|\n")
	for _, r := range profiles.Refusals {
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", r.ID, strings.Join(r.Profiles, ", "), r.Guidance, r.Reason, r.Source)
	}
	return w.String()
}

func valueTables(t *testing.T, in func(profile string) bool) string {
	var w strings.Builder
	for _, name := range want {
		if !in(name) {
			continue
		}
		fmt.Fprintf(&w, "\n## %s\n\n", name)
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
			case key == "include" && section == "main":
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
	return w.String()
}
