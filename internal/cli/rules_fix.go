package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/platform/satellite"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/setting"
)

// tryFixes applies a rule's fix on a simulated machine, for each example that fails or warns.
// The machine has the example's values, and the changes are written through a journal.
// Afterwards the rule must pass, and undo must restore every byte.
//
// It tries only fixes that change inputs of the rule: a kernel value, a key of
// custom-hiera.yaml (as if the installer had run), or a service's limit of open files (as if
// the service had restarted). n is the number of tried fixes.
func tryFixes(ctx context.Context, c *rule.Catalogue, r *rule.Rule) (n int, problems []error) {
	for _, e := range r.Examples {
		f := c.Try(ctx, r, e, nil)
		if f.Fix == nil || f.State != rule.Failed && f.State != rule.Warned {
			continue
		}
		for _, files := range invented(r, e, f) {
			n++
			if err := tryFix(ctx, c, r, e, f, files); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s: the fix of example %q: %w", e.Pos, r.ID, e.Name, err))
			}
		}
	}
	return n, problems
}

// hieraFile is the file with the keys of hiera: settings.
const hieraFile = "/etc/foreman-installer/custom-hiera.yaml"

// invented returns the files of simulated machines for a fix, or none if the fix changes no
// input of the rule. For Hiera keys there are two machines: one without the keys, and one with
// the example's values.
func invented(r *rule.Rule, e rule.Example, f rule.Finding) []map[string]string {
	files := map[string]string{"/proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000000\n", "/etc/systemd/system/other.service": "[Service]\n"}
	asked := false
	const bare = "---\n# Ours: see the change 4711\napache::ours: 1   # why\n"
	keys := bare
	for _, x := range f.Fix.Changes {
		text, ok := given(r, e, f.Instance, x.Name)
		asked = asked || ok || openFiles(r, x.Name) != ""
		if at := placeOf(x.Name); at != "" {
			if !ok {
				text = "0"
			}
			files[at] = text + "\n"
		}
		if key, of := strings.CutPrefix(x.Name, conf.Name+":"); of && files[hieraFile] == "" {
			files[hieraFile] = bare
			if first, rest, within := strings.Cut(key, "/"); text != "" && within {
				keys += first + ":\n    # and this\n    " + rest + ": " + text + "\n"
			} else if text != "" {
				keys += key + ": " + text + " # to be changed\n"
			}
		}
	}
	switch {
	case !asked:
		return nil
	case keys == bare:
		return []map[string]string{files}
	}
	more := maps.Clone(files)
	more[hieraFile] = keys
	return []map[string]string{files, more}
}

// given returns the value of a setting in an example. ok reports whether the setting is an
// input of the rule.
func given(r *rule.Rule, e rule.Example, instance, name string) (text string, ok bool) {
	for _, b := range r.Inputs {
		if b.Input != decides(name) && (b.As == "" || strings.ReplaceAll(b.Input, "{instance}", instance) != name || placeOf(name) == "") {
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
		case nil:
			return "", b.Absent != nil
		}
	}
	return "", false
}

// openFiles returns the rule's input that a service's limit of open files determines, or "".
func openFiles(r *rule.Rule, name string) string {
	if !strings.HasPrefix(name, "unit:") || !strings.HasSuffix(name, "/LimitNOFILE") {
		return ""
	}
	for _, b := range r.Inputs {
		if strings.HasSuffix(b.Input, ".open_files_limit") {
			return b.Name
		}
	}
	return ""
}

// decides returns the input that a Hiera key determines, or "".
func decides(name string) string {
	key, ok := strings.CutPrefix(name, conf.Name+":")
	if !ok {
		return ""
	}
	input, _ := satellite.Installed(key, "")
	return input
}

// placeOf returns the path of a kernel value, or "".
func placeOf(name string) string {
	if key, ok := strings.CutPrefix(name, "sysctl:"); ok {
		return "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
	}
	if file, ok := strings.CutPrefix(name, "sysfs:"); ok {
		return path.Clean(file)
	}
	return ""
}

func tryFix(ctx context.Context, c *rule.Catalogue, r *rule.Rule, e rule.Example, f rule.Finding, files map[string]string) (err error) {
	dir, err := os.MkdirTemp("", "fettle-rule-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "root")
	for at, text := range files {
		if err := os.MkdirAll(filepath.Join(root, path.Dir(at)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, at), []byte(text), 0o644); err != nil {
			return err
		}
	}
	h := host.Mounted(root)
	engine := &tune.Engine{Host: h, Kinds: table.Kinds(h), StateDir: filepath.Join(dir, "state"), Main: profile.DefaultMain(), Reason: "fettle rules test"}
	maps.Copy(engine.Kinds, components.Kinds(h))
	changes, err := changesOf(f)
	if err != nil {
		return err
	}
	changes = slices.DeleteFunc(changes, func(x setting.Change) bool {
		return placeOf(x.Setting.String()) == "" && x.Setting.Kind != conf.Name && openFiles(r, x.Setting.String()) == ""
	})
	if _, err := engine.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return engine.PlanAsked(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply, OrNothing: true}); err != nil {
		return err
	}
	subject := platform.NewSubject(ctx, h, engine.Kinds, nil)
	told, err := started(ctx, r, e, engine.Kinds, changes)
	if err != nil {
		return err
	}
	after := c.Try(ctx, r, told, func(name string, as fact.Type) (fact.Answer, bool) {
		if _, ours := files[placeOf(name)]; !ours {
			return fact.Answer{}, false
		}
		return subject.Read(name, as), true
	})
	if after.State != rule.Passed {
		return fmt.Errorf("after the fix the rule is %s: %v, want %v %s", after.State, after.Measured, after.Want, after.Reason)
	}
	if _, err := engine.Undo(ctx); err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "etc/systemd/system/*.d")); len(left) > 0 {
		return fmt.Errorf("after undo, %v exists", left)
	}
	for at, text := range files {
		b, err := os.ReadFile(filepath.Join(root, at))
		if err != nil {
			return err
		}
		if now := string(b); now != text && (at == hieraFile || strings.TrimSpace(now) != strings.TrimSpace(text)) { // the kernel adds a newline
			return fmt.Errorf("after undo %s is %q, was %q before", at, now, text)
		}
	}
	return nil
}

// started returns the state of the example after the installer has applied custom-hiera.yaml and
// services have restarted with their new limits.
func started(ctx context.Context, r *rule.Rule, e rule.Example, kinds setting.Kinds, changes []setting.Change) (rule.Example, error) {
	e.Given = maps.Clone(e.Given)
	for _, x := range changes {
		limit := openFiles(r, x.Setting.String())
		if x.Setting.Kind != conf.Name && limit == "" {
			continue
		}
		at, err := kinds.Resolve(x.Setting)
		if err != nil {
			return e, err
		}
		now, err := kinds.Read(ctx, at)
		if err != nil {
			return e, err
		}
		if limit != "" {
			n, err := strconv.ParseFloat(now.Text, 64)
			if err != nil {
				return e, fmt.Errorf("%s: %w", x.Setting, err)
			}
			e.Given[limit] = n
			continue
		}
		input, a := satellite.Installed(x.Setting.Name, conf.YAML{}.Unquote(now.Text))
		if a.Unknown != "" {
			return e, fmt.Errorf("%s: %s", x.Setting, a.Unknown)
		}
		for _, b := range r.Inputs {
			if b.Input == input {
				e.Given[b.Name] = a.Value
			}
		}
	}
	return e, nil
}
