package packaging

import (
	"fmt"
	"html"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestCockpitStrings compares the template for translators, po/fettle.pot, with the texts of the
// page: calls _("..."), and elements with translate="yes". FETTLE_UPDATE_GOLDEN=1 writes it.
func TestCockpitStrings(t *testing.T) {
	found := map[string][]string{} // text to files
	for _, pattern := range []string{"cockpit/*.js", "cockpit/*.html"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			add := func(msgid string) {
				if name := filepath.Base(file); !slices.Contains(found[msgid], name) {
					found[msgid] = append(found[msgid], name)
				}
			}
			calls := regexp.MustCompile(`\b_\(("(?:[^"\\]|\\.)*")\)`).FindAllStringSubmatch(string(text), -1)
			for _, call := range calls {
				msgid, err := strconv.Unquote(call[1])
				if err != nil {
					t.Fatalf("%s: %s: %v", file, call[1], err)
				}
				add(msgid)
			}
			if all := strings.Count(string(text), "_("); all != len(calls) {
				t.Errorf(`%s: %d of %d calls of _ have one text in double quotes`, file, len(calls), all)
			}
			for _, element := range regexp.MustCompile(`translate="yes">([^<]*)<`).FindAllStringSubmatch(string(text), -1) {
				add(html.UnescapeString(element[1]))
			}
		}
	}
	var pot strings.Builder
	pot.WriteString("# Texts of the page for Cockpit. $0, $1 are replaced.\nmsgid \"\"\nmsgstr \"\"\n\"Content-Type: text/plain; charset=UTF-8\\n\"\n\"Content-Transfer-Encoding: 8bit\\n\"\n")
	for _, msgid := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&pot, "\n#: %s\nmsgid %q\nmsgstr \"\"\n", strings.Join(found[msgid], " "), msgid)
	}
	const name = "cockpit/po/fettle.pot"
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(pot.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(name); err != nil || string(now) != pot.String() {
		t.Errorf("%s is not that of the page (%v); run: FETTLE_UPDATE_GOLDEN=1 go test ./packaging -run TestCockpitStrings", name, err)
	}
}

// TestCockpitPackage tests that the package has each file that the page loads.
func TestCockpitPackage(t *testing.T) {
	contents := packageContents(t, "nfpm/cockpit-fettle.yaml")
	for name := range cockpitFiles(t) {
		if !slices.ContainsFunc(contents, func(c nfpmContent) bool {
			ok, err := filepath.Match(c.Src, "cockpit/"+name)
			return err == nil && ok && c.Dst == "/usr/share/cockpit/fettle/"
		}) {
			t.Errorf("%s is not in the package", name)
		}
	}
}

// TestCockpitSource tests that eslint and stylelint find nothing.
func TestCockpitSource(t *testing.T) {
	root.Real(t, "runs eslint and stylelint")
	dir, err := exec.Command("../test/eslint/run", "--print").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(strings.TrimSpace(string(dir))); err != nil {
		root.Missing(t, "eslint and stylelint are not in the cache; run: test/eslint/run --fetch")
	}
	if out, err := exec.Command("../test/eslint/run").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// cockpitFiles are the files of the page, name to content.
func cockpitFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*.js", "*.html", "*.css", "*.json"} {
		names, err := filepath.Glob(filepath.Join("cockpit", pattern))
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(name)] = string(text)
		}
	}
	return files
}
