package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const firstRule = `- id: OURS1
  title: The machine has memory enough
  failed: The machine has too little memory
  platforms: [linux]
  inputs:
    total: memory.total_bytes
  want: gib(16)
  pass: measured >= want
  why: It swaps otherwise.
  sources: [{document: ours}]
  examples:
    - {name: enough, given: {total: 34359738368}, finding: pass}
    - {name: too little, given: {total: 1000}, finding: warn}
`

// Who writes a first rule is told the line, what is wrong with it, and what to write
// instead.
func TestMistakesInOwnRules(t *testing.T) {
	if out, code := lintOwn(t, "ours.yaml", firstRule); code != 0 {
		t.Fatalf("the rule itself: exit %d\n%s", code, out)
	}
	const swappiness = `{input: "sysctl:vm.swappiness", as: number}`
	for _, c := range testkitroot.Some([]struct{ what, from, to, want string }{
		{"too far to the right", "  title:", "   title:", `ours.yaml:2: mapping values are not allowed in this context (is the line indented like its neighbors?`},
		{"a tab", "  title:", "\ttitle:", `ours.yaml:2: found a tab character that violates indentation (indent with blanks)`},
		{"a colon in text", "why: It", "why: note: it", `ours.yaml:9: mapping values are not allowed in this context (is the line indented like its neighbors? quote text with ": " in it)`},
		{"an open quotation mark", "title: The", `title: "The`, `ours.yaml:2: found unexpected end of stream (a quotation mark is not closed)`},
		{"no list", "- id", "  id", `ours.yaml:1: the file: want a list: of rules, each of which begins with "- id: NAME"`},
		{"a key misspelt", "platforms:", "platform:", `ours.yaml:4: a rule cannot have "platform" (did you mean "platforms"?)`},
		{"a key with _", "  examples:", "  depends_on: [S06]\n  examples:", `ours.yaml:11: a rule cannot have "depends_on" (did you mean "depends-on"?)`},
		{"a key of its own", "why:", "reason:", `ours.yaml:9: a rule cannot have "reason": the keys are applies, depends-on, `},
		{"an input misspelt", "total_bytes", "total_byte", `ours.yaml:6: OURS1: unknown input "memory.total_byte" (did you mean "memory.total_bytes"?)`},
		{"an input of another tool", "memory.total_bytes", "memory.physical", `ours.yaml:6: OURS1: unknown input "memory.physical": memory has memory.`},
		{"a sysctl as an input", "memory.total_bytes", "vm.swappiness", `ours.yaml:6: OURS1: unknown input "vm.swappiness": for a sysctl write ` + swappiness},
		{"a setting without a type", "memory.total_bytes", `"sysctl:vm.swappiness"`, `ours.yaml:6: OURS1: sysctl:vm.swappiness: as "": want the type that a setting is read as, one of number, `},
		{"inputs as a list", "total: memory", "- memory", `ours.yaml:6: inputs: want names and inputs: {NAME: memory.total_bytes} or {NAME: ` + swappiness},
		{"a set misspelt", "  want:", "  each: disks\n  want:", `ours.yaml:7: OURS1: each: unknown set "disks" (did you mean "disk"?)`},
		{"an item without each", "memory.total_bytes", "disk.*.scheduler", `ours.yaml:6: OURS1: disk.*.scheduler belongs to each disk: the rule needs each: disk`},
		{"a name misspelt", "pass: measured", "pass: totl", `ours.yaml:8: totl >= want: unknown name totl (did you mean "total"?)`},
		{"an operator", ">=", "=>", `ours.yaml:8: measured => want: unexpected "=": compare with ==, >= and <=`},
		{"a function misspelt", "gib(16)", "gb(16)", `ours.yaml:7: gb(16): unknown name gb (did you mean "gib"?)`},
		{"a size", "gib(16)", "16GiB", `: write sizes as gib(16), mib(512) or kib(4)`},
		{"text without quotes", "gib(16)", "performance", `ours.yaml:7: performance: unknown name performance: quote text ('"performance"'); the names in this rule are instance, measured, total, want`},
		{"yes", "measured >= want", "yes", `ours.yaml:8: yes: unknown name yes: write true or false`},
		{"a table's value", "gib(16)", `cell("satellite_sizes", "6.12", "large", "ram")`, `mismatched types number and any): convert table values by float(...) or string(...)`},
		{"versions as text", "  want:", "  versions: \"6.12\"\n  want:", `ours.yaml:7: versions: want a list: [{of: satellite, from: "6.12", before: "6.16"}]`},
		{"a version with a sign", "  want:", "  versions: [{of: satellite, from: \">=6.12\"}]\n  want:", `ours.yaml:7: OURS1: versions: from: ">=6.12" is not a version: want [{of: satellite, `},
		{"versions the wrong way round", "  want:", "  versions: [{of: satellite, from: \"6.16\", before: \"6.12\"}]\n  want:", `ours.yaml:7: OURS1: versions: empty range: from 6.16, before 6.12`},
		{"versions of an unknown product", "  want:", "  versions: [{of: satelite}]\n  want:", `ours.yaml:7: OURS1: versions: unknown product "satelite" (did you mean "satellite"?)`},
		{"examples without a version", "  want:", "  versions: [{of: satellite, from: \"6.12\"}]\n  want:", `ours.yaml:13: OURS1: example "enough" gives the finding not-applicable, want pass (satellite was not found on this machine): give satellite.version: "6.12"`},
		{"a platform misspelt", "[linux]", "[linus]", `ours.yaml:4: OURS1: unknown platform "linus" (did you mean "linux"?)`},
		{"platforms as text", "[linux]", "linux", `ours.yaml:4: platforms: want a list: [linux] or [satellite, puppet]`},
		{"a severity of another tool", "  want:", "  severity: error\n  want:", `ours.yaml:7: severity "error": want fail or warn`},
		{"sources as text", "[{document: ours}]", "ours", `ours.yaml:10: sources: want a list: [{document: our handbook, section: "4.2"}]`},
		{"no examples", firstRule[strings.Index(firstRule, "  examples"):], "", `ours.yaml:1: OURS1 needs an example that passes and one that does not: examples: [{name: enough, given: {total: VALUE}, finding: pass}, ...]`},
		{"an example of nothing", "{total: 1000}", "{totl: 1000}", `ours.yaml:13: OURS1: example "too little" gives totl, which is not an input of the rule (did you mean "total"?)`},
		{"an example with a size", "{total: 1000}", "{total: 1GiB}", `ours.yaml:13: OURS1: example "too little" gives total: 1GiB, and memory.total_bytes is a number: 1GiB is 1073741824`},
		{"a finding misspelt", "finding: warn", "finding: warning", `ours.yaml:13: finding "warning": want pass, warn, fail, not-applicable, unknown or reminder (did you mean "warn"?)`},
		{"a fix in words", "  examples:", "  fix: buy memory\n  examples:", `ours.yaml:11: fix: want keys and values: {text: what to do} or {changes: {"sysctl:vm.swappiness": "10"}}`},
		{"a fix of no kind", "  examples:", "  fix: {changes: {\"sysclt:vm.swappiness\": \"10\"}}\n  examples:", `ours.yaml:11: OURS1: "sysclt:vm.swappiness": unknown kind of setting "sysclt" (did you mean "sysctl"?)`},
		{"a fix as sysctl(8) has it", "  examples:", "  fix: {changes: [\"vm.swappiness=10\"]}\n  examples:", `ours.yaml:11: OURS1: "vm.swappiness=10" is not a sysctl name; want changes: {"sysctl:vm.swappiness": "10"}`},
		{"depends on nothing", "  examples:", "  depends-on: [S666]\n  examples:", `ours.yaml:11: OURS1: depends on unknown rule S666 (did you mean "S66"?)`},
		{"no id", "id: OURS1\n  title", "title", `ours.yaml:1: the id of a rule is missing: want id: NAME`},
		{"an id of ours", "OURS1", "S06", `ours.yaml:1: S06 is already defined at linux.yaml:3; use another id (disable: turns off one of fettle's)`},
		{"two documents", "- id", firstRule + "---\n- id", `ours.yaml:14: a second document begins here: a file is one list; remove the "---"`},
		{"a broken second document", "- id", firstRule + "---\n{\n- id", `ours.yaml:1`},
		{"a binary file", "  why:", "  \x00\x01why:", `ours.yaml:9: control character 0x00; not a text file?`},
		{"another encoding", "why: It", "why: \xe9It", `ours.yaml:9: invalid UTF-8 byte 0xe9`},
		{"twice", "- id", firstRule + "- id", `ours.yaml:14: OURS1 is already defined at /etc/fettle/rules.d/ours.yaml:1`},
	}) {
		t.Run(c.what, func(t *testing.T) {
			text := strings.Replace(firstRule, c.from, c.to, 1)
			if text == firstRule {
				t.Fatal("no mistake")
			}
			if out, code := lintOwn(t, "ours.yaml", text); code != 1 || !strings.Contains(out, c.want) {
				t.Errorf("exit %d, want %q in\n%s", code, c.want, out)
			}
		})
	}
	if out, code := lintOwn(t, "ours.yml", firstRule); code != 1 || !strings.Contains(out, "ours.yml: rule files must end in .yaml") {
		t.Errorf("a file that nobody would read: exit %d\n%s", code, out)
	}
}

// lintOwn is what fettle rules test says of an administrator's file: of its rule,
// where it loads.
func lintOwn(t *testing.T, name, text string) (out string, code int) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, audit.OwnRules, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	args := []string{"rules", "test", "--root", dir}
	if strings.Contains(text, "OURS1") {
		args = append(args, "OURS1")
	}
	code = Main("test", args, &said, &said)
	return said.String(), code
}
