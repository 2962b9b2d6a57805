package cli

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/setting"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
)

// No fix makes a machine fail a rule that it has followed: neither the one of a
// single rule nor those of all rules at once.
func TestFixesAgree(t *testing.T) {
	c := loadCatalogue(t)
	applied := 0
	for _, archive := range recordedMachines(t) {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			applied += fixesAgree(t, c, string(b))
		})
	}
	if applied < testkitroot.Sample(30) {
		t.Errorf("%d fixes were tried, of which there should be more", applied)
	}
}

// A size for more memory than the machine has takes no key but that of the buffers,
// and that one is no override then.
func TestBuffersForLessMemory(t *testing.T) {
	b, err := os.ReadFile("../../testdata/hosts/satellite-616-large.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`MemTotal: +\d+ kB`).ReplaceAllString(string(b), "MemTotal:       20971520 kB")
	c := loadCatalogue(t)
	before := audited(t, c, text)
	i := slices.IndexFunc(before, func(f rule.Finding) bool { return f.ID == "S33" })
	if before[i].State != rule.Warned || before[i].Fix == nil || len(before[i].Fix.Changes) != 1 {
		t.Fatalf("S33 of 20 GiB with the size large: %+v", before[i])
	}
	if fixesAgree(t, c, text) == 0 {
		t.Error("nothing could be tried")
	}
}

// fixesAgree tries the fixes of a machine's findings, and returns how many.
func fixesAgree(t *testing.T, c *rule.Catalogue, archive string) (tried int) {
	before := audited(t, c, archive)
	state := map[string]rule.State{}
	var bad []rule.Finding
	for _, f := range before {
		state[f.ID+" "+f.Instance] = f.State
		if (f.State == rule.Warned || f.State == rule.Failed) && f.Fix != nil && len(f.Fix.Changes) > 0 {
			bad = append(bad, f)
		}
	}
	try := func(what string, findings []rule.Finding) {
		fixed := archive
		for _, f := range findings {
			changes, err := changesOf(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range changes {
				next, ok := writtenTo(t, fixed, x)
				if ok {
					tried++
				}
				fixed = next
			}
		}
		for _, f := range audited(t, c, fixed) {
			if f.ID == "S73" { // the installer has to run, as the command of each fix of its keys says
				continue
			}
			was := state[f.ID+" "+f.Instance]
			if (f.State == rule.Warned || f.State == rule.Failed) && was != f.State && was != rule.Failed {
				t.Errorf("the fix of %s makes %s %s %s, which was %s: %v, wanted %v", what, f.ID, f.Instance, f.State, was, f.Measured, f.Want)
			}
		}
	}
	for _, f := range bad {
		try(f.ID+" "+f.Instance, []rule.Finding{f})
	}
	agree(bad)
	try("all", bad)
	return tried
}

// audited asks the rules of all platforms of a recorded machine.
func audited(t *testing.T, c *rule.Catalogue, archive string) []rule.Finding {
	t.Helper()
	all := c.Check(t.Context(), recorded(t, archive), audit.Platforms(), nil)
	for i, f := range all { // what is explained has a fix of its own too
		if f.Because != "" {
			all[i].Fix = f.Own
		}
	}
	return all
}

func recorded(t *testing.T, archive string) *platform.Subject {
	t.Helper()
	h, err := host.ParseArchive("machine", []byte(archive))
	if err != nil {
		t.Fatal(err)
	}
	return platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
}

// writtenTo is the archive with a value written to the file that holds it; ok is
// false where that is not in the archive.
func writtenTo(t *testing.T, archive string, x setting.Change) (text string, ok bool) {
	t.Helper()
	h, err := host.ParseArchive("machine", []byte(archive))
	if err != nil {
		t.Fatal(err)
	}
	if at := placeOf(x.Setting.String()); at != "" {
		old, err := h.Files.ReadFile(at)
		if err != nil {
			return archive, false
		}
		if at, err = h.Files.Resolve(at); err != nil {
			t.Fatal(err)
		}
		return replaced(t, archive, at, chosen(strings.TrimSpace(string(old)), x.Want.Text)+"\n"), true
	}
	kinds := components.Kinds(h)
	s, err := kinds.Resolve(x.Setting)
	if err != nil {
		return archive, false
	}
	files := kinds[s.Kind].(setting.FileLister).Files(s)
	if _, err := h.Files.ReadFile(files[0]); err != nil {
		return archive, false
	}
	// The kind writes to a tree that has the configuration.
	dir := t.TempDir()
	for _, header := range archiveFile().FindAllStringSubmatch(archive, -1) {
		if text, err := h.Files.ReadFile(header[1]); err == nil && (strings.HasPrefix(header[1], "/etc/") || strings.HasPrefix(header[1], "/var/lib/")) {
			if err := os.MkdirAll(filepath.Join(dir, path.Dir(header[1])), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, header[1]), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	mounted := components.Kinds(host.Mounted(dir))
	if err := mounted.Write(t.Context(), s, x.Want); err != nil {
		t.Logf("%s = %s: %v", s, x.Want.Text, err)
		return archive, false
	}
	now, err := os.ReadFile(filepath.Join(dir, files[0]))
	if err != nil {
		t.Fatal(err)
	}
	return replaced(t, archive, files[0], string(now)), true
}

var archiveFile = internaltext.LazyRegexp(`(?m)^-- file .*?(/\S*) --$`)

// replaced is an archive with another content of a file.
func replaced(t *testing.T, archive, at, content string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^-- file [^\n]*` + regexp.QuoteMeta(at) + ` --\n`).FindStringIndex(archive)
	if m == nil {
		t.Fatalf("%s is not in the archive", at)
	}
	rest := archive[m[1]:]
	if end := strings.Index("\n"+rest, "\n-- "); end >= 0 {
		rest = rest[end:]
	} else {
		rest = ""
	}
	return archive[:m[1]] + content + rest
}

// chosen is what the kernel shows of a choice, where it is one: "[none] mq-deadline".
func chosen(old, value string) string {
	if !strings.Contains(old, "[") {
		return value
	}
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(old))
	if i := slices.Index(words, value); i >= 0 {
		words[i] = "[" + value + "]"
	}
	return strings.Join(words, " ")
}

// Of several wishes for a setting the largest is taken, with the rule whose it is.
func TestAgree(t *testing.T) {
	wants := func(id, value string) rule.Finding {
		return rule.Finding{ID: id, Fix: &rule.Repair{Changes: []rule.Entry{{Name: "sysctl:net.core.somaxconn", Value: value}}}}
	}
	findings := []rule.Finding{wants("H07", "511"), wants("L07", "4096"), wants("N05", "1024"), wants("R04", "511")}
	said := agree(findings)
	for _, f := range findings {
		if e := f.Fix.Changes[0]; e.Value != "4096" || e.For != "L07" {
			t.Errorf("%s gets %s for %s", f.ID, e.Value, e.For)
		}
	}
	if want := "sysctl:net.core.somaxconn: L07 requires 4096, but R04 requires 511; using 4096"; len(said) != 3 || said[2] != want {
		t.Errorf("said %q, want %q as the last", said, want)
	}
}
