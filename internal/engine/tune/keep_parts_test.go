package tune_test

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/boot"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
)

// bootMachine is a machine with GRUB's environment block. It returns a function that reads fettle's
// arguments in it.
func bootMachine(t *testing.T) (*tune.Engine, func() string) {
	t.Helper()
	files := sysctls()
	files["/proc/cmdline"] = "BOOT_IMAGE=/vmlinuz ro audit=1 nosmt spectre_v2=on"
	files["/boot/grub2/grubenv"] = "# GRUB Environment Block"
	files["/usr/bin/grub2-editenv"] = ""
	h, _ := fakeMachine(t, files)
	read := func() string {
		b, err := h.Files.ReadFile("/boot/grub2/grubenv")
		if err != nil {
			t.Fatal(err)
		}
		_, args, _ := strings.Cut(string(b), "tuned_params=")
		return strings.TrimSpace(args)
	}
	h.Exec = &testkitplugin.Programs{Answer: map[string]func(host.Command) host.Result{
		"grub2-editenv": func(c host.Command) host.Result {
			text := "# GRUB Environment Block\n"
			if c.Argv[2] == "set" {
				text += c.Argv[3] + "\n"
			} else if len(c.Argv) == 4 {
				return host.Result{} // unset tuned_initrd
			}
			if err := h.Files.Replace(c.Argv[1], []byte(text), host.Attr{Mode: 0o644}); err != nil {
				t.Error(err)
			}
			return host.Result{}
		},
	}}
	e := newEngine(t, h)
	for name, kind := range boot.Kinds(h) {
		e.Kinds[name] = kind
	}
	return e, read
}

func arguments(text string) setting.Change {
	return setting.Change{Setting: setting.Setting{Kind: "bootloader", Name: "grubenv"}, Want: setting.Text(text), Reason: setting.Reason{Text: "test"}}
}

// requires returns the entry of a rule that requires a kernel argument.
func requires(e *tune.Engine, name string, allowed ...string) tune.KeepEntry {
	return tune.RuleEntry(e.Kinds, setting.Setting{Kind: "cmdline", Name: name}, "rule_"+name, allowed, "arf.xml")
}

// TestRequiredArguments tests that a profile neither changes nor removes a kernel argument that a
// rule requires, and that its other arguments are written.
func TestRequiredArguments(t *testing.T) {
	for _, c := range []struct {
		what    string
		keep    string // NAME or NAME=VALUE
		add     string
		written string
		refused string
	}{
		{"another value", "audit=1", "skew_tick=1 audit=0", "skew_tick=1", "cmdline:audit"},
		{"the required value", "vsyscall=none", "vsyscall=none skew_tick=1", "vsyscall=none skew_tick=1", ""},
		{"a required absence", "nosmep", "nosmep skew_tick=1", "skew_tick=1", "cmdline:nosmep"},
		{"what the kernel has", "nosmt", "nosmt skew_tick=1", "nosmt skew_tick=1", ""},
		{"the same name with hyphens", "page_alloc_shuffle=1", "page-alloc.shuffle=0", "", "cmdline:page_alloc_shuffle"},
		{"an argument with the same effect", "spectre_v2=on", "mitigations=off skew_tick=1", "skew_tick=1", "cmdline:mitigations"},
		{"an argument without effect on it", "spectre_v2=on", "mitigations=auto skew_tick=1", "mitigations=auto skew_tick=1", ""},
		{"a quoted value", "dyndbg=a b", `dyndbg="c d" skew_tick=1`, "skew_tick=1", "cmdline:dyndbg"},
		{"arguments of init", "audit=1", "skew_tick=1 audit=0 -- audit=0", "skew_tick=1 -- audit=0", "cmdline:audit"},
	} {
		t.Run(c.what, func(t *testing.T) {
			e, written := bootMachine(t)
			name, value, ok := strings.Cut(c.keep, "=")
			var allowed []string
			if ok {
				allowed = []string{value}
			}
			e.Keep = tune.Keep{requires(e, name, allowed...)}
			a := apply(t, e, journal.Apply, arguments(c.add))
			if got := written(); got != c.written {
				t.Errorf("written %q, want %q", got, c.written)
			}
			refused := ""
			for _, s := range a.Plan.Steps {
				if s.Verdict == plugin.Refused {
					refused = s.Setting.String()
					if !strings.Contains(s.Why, "required by rule_"+name) || s.Action != tune.None {
						t.Errorf("%+v", s)
					}
				}
			}
			if refused != c.refused {
				t.Errorf("refused %q, want %q", refused, c.refused)
			}
		})
	}
}

// TestRequiredArgumentStays tests that a switch to a profile without a required argument, or to one
// without any arguments, leaves it.
func TestRequiredArgumentStays(t *testing.T) {
	for _, next := range [][]setting.Change{{arguments("skew_tick=1")}, {}} {
		e, written := bootMachine(t)
		apply(t, e, journal.Tune, arguments("page_poison=1 nohz=on"))
		e.Keep = tune.Keep{requires(e, "page_poison", "1")}
		a := apply(t, e, journal.Tune, next...)
		if got := written(); !slices.Contains(strings.Fields(got), "page_poison=1") {
			t.Errorf("after %v: %q", next, got)
		}
		if len(next) == 0 && len(a.Plan.Problems) == 0 {
			t.Error("the plan does not say that the arguments stay")
		}
		if _, err := e.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := written(); got != "" {
			t.Errorf("after undo: %q", got)
		}
	}
}

// TestSavedPlanOfArguments tests that a plan made without the rule is refused with it.
func TestSavedPlanOfArguments(t *testing.T) {
	e, written := bootMachine(t)
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.PlanChanges(t.Context(), []setting.Change{arguments("audit=0")}, s)
	if err != nil {
		t.Fatal(err)
	}
	e.Keep = tune.Keep{requires(e, "audit", "1")}
	if _, err := e.Apply(t.Context(), e.ApplySaved(p), tune.ApplyOptions{Kind: journal.Apply}); err == nil || written() != "" {
		t.Errorf("applied: %v, %q", err, written())
	}
}

// TestRefusedAreRecorded tests that the journal has the refused values, and that undo reports them.
func TestRefusedAreRecorded(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "60", "vm.laptop_mode", "0"))
	e := newEngine(t, h)
	e.Keep = tune.Keep{tune.RuleEntry(e.Kinds, sysctl("vm.swappiness"), "rule_swap", []string{"60"}, "arf.xml")}
	a := apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("vm.laptop_mode", "1"))
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	got := s.Txs[len(s.Txs)-1].Refused
	if len(got) != 1 || got[0].Setting != sysctl("vm.swappiness") || got[0].Want.Text != "10" || !strings.Contains(got[0].Why, "required by rule_swap") {
		t.Errorf("recorded %+v", got)
	}
	u, err := e.Undo(t.Context(), a.Tx)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Refused) != 1 || len(u.Values) != 1 {
		t.Errorf("undo: %+v", u)
	}
	if h := u.Summarize(); !strings.Contains(h.Lines[0], "1 never written") {
		t.Errorf("headline %q", h.Lines)
	}
}
