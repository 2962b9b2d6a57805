package cli

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/journal"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/plugin/table"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/tune"
)

// tryFixes goes round with the fix of a rule, on an invented machine for each of
// its examples that is not well: the machine has the example's values, what the
// fix changes is written through a journal, the rule has to pass then, and undo
// has to give every value back. Those are followed whose fix changes a value
// of the kernel that the rule itself asks for; n says how many.
func tryFixes(ctx context.Context, c *rule.Catalogue, r *rule.Rule) (n int, problems []error) {
	for _, e := range r.Examples {
		f := c.Try(r, e, nil)
		if f.Fix == nil || f.State != rule.Failed && f.State != rule.Warned {
			continue
		}
		asked := slices.ContainsFunc(f.Fix.Changes, func(x rule.Entry) bool {
			_, ok := given(r, e, f.Instance, x.Name)
			return ok
		})
		if !asked {
			continue
		}
		n++
		if err := tryFix(ctx, c, r, e, f); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: the fix of example %q: %w", e.Pos, r.ID, e.Name, err))
		}
	}
	return n, problems
}

// given is what an example says that a setting holds; ok is false where the rule
// does not ask for it.
func given(r *rule.Rule, e rule.Example, instance, name string) (text string, ok bool) {
	for _, b := range r.Inputs {
		if b.As == "" || strings.ReplaceAll(b.Input, "{instance}", instance) != name || placeOf(name) == "" {
			continue
		}
		switch v := e.Given[b.Name].(type) {
		case string:
			return v, v != "unknown"
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64), true
		case int:
			return strconv.Itoa(v), true
		case bool:
			if v {
				return "1", true
			}
			return "0", true
		}
	}
	return "", false
}

// placeOf is the file of a kernel's value; "" for other settings.
func placeOf(name string) string {
	if key, ok := strings.CutPrefix(name, "sysctl:"); ok {
		return "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
	}
	if file, ok := strings.CutPrefix(name, "sysfs:"); ok {
		return path.Clean(file)
	}
	return ""
}

func tryFix(ctx context.Context, c *rule.Catalogue, r *rule.Rule, e rule.Example, f rule.Finding) (err error) {
	dir, err := os.MkdirTemp("", "fettle-rule-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	machine := map[string]string{"/proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000000"}
	for _, x := range f.Fix.Changes {
		if at := placeOf(x.Name); at != "" {
			machine[at] = "0"
			if text, ok := given(r, e, f.Instance, x.Name); ok {
				machine[at] = text
			}
		}
	}
	root := filepath.Join(dir, "root")
	for at, text := range machine {
		if err := os.MkdirAll(filepath.Join(root, path.Dir(at)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, at), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	h := host.Mounted(root)
	engine := &tune.Engine{Host: h, Kinds: table.Kinds(h), StateDir: filepath.Join(dir, "state"), Main: profile.DefaultMain(), Reason: "fettle rules test"}
	changes, err := changesOf(f)
	if err != nil {
		return err
	}
	changes = slices.DeleteFunc(changes, func(x setting.Change) bool { return placeOf(x.Setting.String()) == "" })
	if _, err := engine.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return engine.PlanAsked(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply, OrNothing: true}); err != nil {
		return err
	}
	subject := platform.NewSubject(ctx, h, engine.Kinds, nil)
	after := c.Try(r, e, func(name string, as rule.Type) (rule.Answer, bool) {
		if _, ours := machine[placeOf(name)]; !ours {
			return rule.Answer{}, false
		}
		return subject.Read(name, as), true
	})
	if after.State != rule.Passed {
		return fmt.Errorf("afterwards the rule is %s: %v, wanted %v %s", after.State, after.Measured, after.Want, after.Reason)
	}
	if _, err := engine.Undo(ctx); err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	for at, text := range machine {
		b, err := os.ReadFile(filepath.Join(root, at))
		if err != nil {
			return err
		}
		if now := strings.TrimSpace(string(b)); now != text { // the kernel ends the line
			return fmt.Errorf("after undo %s has %q, and had %q", at, now, text)
		}
	}
	return nil
}
