package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// argument is the setting kind of single kernel arguments, cmdline:NAME. The value is that of the
// running kernel. A boot loader's setting is written as a whole; this kind lets a user or a
// compliance rule keep one argument.
type argument struct{ host *host.Host }

// argumentKind is the name of the kind.
const argumentKind = "cmdline"

// Resolve returns the name with underscores only: the kernel does not distinguish - from _
// (kernel/params.c), and names of compliance rules have _ for the dot of a module's parameter.
func (argument) Resolve(s setting.Setting) (setting.Setting, error) {
	if s.Name == "" || strings.ContainsAny(s.Name, " \t\n=\"") {
		return setting.Setting{}, fmt.Errorf("%s: want the name of a kernel argument, such as cmdline:audit", s)
	}
	s.Name = strings.NewReplacer("-", "_", ".", "_").Replace(s.Name)
	return s, nil
}

func (k argument) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	b, err := k.host.Files.ReadFile("/proc/cmdline")
	if err != nil {
		return setting.Value{}, err
	}
	now := setting.Absent
	for _, p := range partsOf(string(b)) {
		if id, err := k.Resolve(s); err == nil && p.Setting == id {
			now = p.Value // the last one counts
		}
	}
	return now, nil
}

func (argument) Write(context.Context, setting.Setting, setting.Value) error {
	return errors.New("fettle writes kernel arguments only together, as the option cmdline of a profile")
}

// CheckRequest refuses a request for a single argument, because Write cannot meet it.
func (argument) CheckRequest(s setting.Setting, _ setting.Value, _ []string) error {
	return fmt.Errorf("%w: %s; use the option cmdline in the section [bootloader] of a profile", setting.ErrNotSettable, s)
}

func (argument) Equal(a, b setting.Value) bool             { return a.Absent == b.Absent && a.Text == b.Text }
func (argument) Coupled(setting.Setting) []setting.Setting { return nil }
func (argument) Lifetime() setting.Lifetime                { return setting.Reboot }

// partsOf returns the words of a command line. What follows "--" is for init and has no setting.
func partsOf(line string) (parts []setting.Part) {
	ofInit := false
	for _, word := range words(line) {
		p := setting.Part{Text: word}
		ofInit = ofInit || word == "--"
		name, value, _ := strings.Cut(word, "=")
		if s, err := (argument{}).Resolve(setting.Setting{Kind: argumentKind, Name: name}); err == nil && !ofInit {
			p.Setting, p.Value = s, setting.Text(strings.Trim(value, `"`))
		}
		parts = append(parts, p)
	}
	return parts
}

// words splits a command line at spaces outside of double quotes (lib/cmdline.c next_arg).
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
}

// Parts returns the arguments of a boot loader's value, each with what it implies.
func (kind) Parts(v setting.Value) []setting.Part {
	b, err := parseBoot(v.Text)
	if err != nil {
		return nil
	}
	parts := partsOf(b.args)
	for i, p := range parts {
		for _, also := range implied[p.Text] {
			parts[i].Implies = append(parts[i].Implies, partsOf(also)...)
		}
	}
	return parts
}

// Join returns a boot loader's value with these arguments instead of its own. It is absent without
// arguments and overlay.
func (kind) Join(v setting.Value, parts []setting.Part) setting.Value {
	b, err := parseBoot(v.Text)
	if err != nil {
		return v
	}
	own := make([]string, len(parts))
	for i, p := range parts {
		own[i] = p.Text
	}
	if b.args = strings.Join(own, " "); b == (boot{}) {
		return setting.Absent
	}
	return setting.Text(b.text())
}

// implied maps an argument to others with the same effect (kernel,
// Documentation/admin-guide/kernel-parameters.txt).
var implied = map[string][]string{
	"mitigations=off": {
		"pti=off", "nopti", "nospectre_v1", "nospectre_v2", "spectre_v2=off", "spectre_v2_user=off", "spec_store_bypass_disable=off", "l1tf=off", "mds=off",
		"tsx_async_abort=off", "kvm.nx_huge_pages=off", "srbds=off", "mmio_stale_data=off", "retbleed=off", "spec_rstack_overflow=off",
		"gather_data_sampling=off", "reg_file_data_sampling=off", "indirect_target_selection=off",
	},
	"nopti":                       {"pti=off"},
	"nospectre_v2":                {"spectre_v2=off"},
	"nospec_store_bypass_disable": {"spec_store_bypass_disable=off"},
	"slab_merge":                  {"slab_nomerge=no"},
	"slub_merge":                  {"slab_nomerge=no"},
}

var _ setting.Composite = kind{}
