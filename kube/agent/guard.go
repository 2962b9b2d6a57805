package agent

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/tuned"
)

// The operator checks profile texts from the cluster as written (package boundary). The agent
// checks the resulting profile again: included profiles, of the node or of fettle, use variables
// that these texts set.

// functions maps the built-in functions of the profile language that profiles may call on a node to
// the permission each requires; "" for none. Other functions are rejected. Two functions run a
// program without a permission; each always runs the same program.
var functions = map[string]tuned.Kind{
	"exec": tuned.Exec,

	"assertion": "", "assertion_non_equal": "", "calc_isolated_cores": "", "check_net_queue_count": "",
	"cpuinfo_check": "", "cpulist2devs": "", "cpulist2hex": "", "cpulist2hex_invert": "", "cpulist_invert": "",
	"cpulist_online": "", "cpulist_pack": "", "cpulist_present": "", "cpulist_unpack": "", "hex2cpulist": "",
	"intel_recommended_pstate": "", "kb2s": "", "log": "", "lscpu_check": "", "package2cpus": "",
	"package2uncores": "", "regex_search_ternary": "", "s2kb": "", "strip": "", "virt_check": "",
}

// refuse returns a check that rejects calls of functions without permission.
func refuse(allow tuned.Allow) func(string) error {
	return func(name string) error {
		kind, known := functions[name]
		switch {
		case !known:
			return fmt.Errorf("function %s is not allowed on cluster nodes", name)
		case kind != "" && !allow[kind]:
			return fmt.Errorf("function %s is not allowed on this node; to allow it, start the agent with --allow=%s", name, kind)
		}
		return nil
	}
}

// guarded returns the plug-ins with restrictions: a plug-in without permission rejects its whole
// section, others reject settings that name a program.
func guarded(all []plugin.Plugin, allow tuned.Allow) []plugin.Plugin {
	out := slices.Clone(all)
	for i := range out {
		switch {
		case isRefusable(out[i].Name):
			if !allow[tuned.Kind(out[i].Name)] {
				out[i] = refused(out[i])
			}
		case !allow[tuned.Exec]:
			out[i] = withoutPrograms(out[i])
		}
	}
	return out
}

// isRefusable reports whether a plug-in's name is a permission, so that it can be refused as a
// whole.
func isRefusable(plugin string) bool {
	for _, k := range tuned.Kinds {
		if string(k.Kind) == plugin {
			return true
		}
	}
	return false
}

// refused returns a plug-in that rejects every option with the reason.
func refused(p plugin.Plugin) plugin.Plugin {
	plan := func(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
		return []plugin.Item{plugin.Refuse(plugin.OptionPlace(r.Unit.Name, o.Name, ""), o, plugin.Refused, "not allowed on this node; to allow it, start the agent with --allow=%s", p.Name)}, nil
	}
	return plugin.Plugin{Name: p.Name, Doc: p.Doc, Free: func(name string) (plugin.Option, bool) {
		return plugin.Option{Name: name, Plan: plan}, true
	}}
}

// withoutPrograms returns a plug-in that rejects settings with a program for the kernel to run.
func withoutPrograms(p plugin.Plugin) plugin.Plugin {
	guard := func(kinds setting.Kinds, items []plugin.Item) []plugin.Item {
		for i := range items {
			id, err := kinds.Resolve(items[i].Change.Setting)
			if err == nil && items[i].Verdict == "" && tuned.NamesProgram(id, items[i].Change.Want.Text) {
				items[i].Verdict, items[i].Why = plugin.Refused, "names a program that the kernel runs; to allow it, start the agent with --allow=exec"
			}
		}
		return items
	}
	option := func(o plugin.Option) plugin.Option {
		if plan := o.Plan; plan != nil {
			o.Plan = func(ctx context.Context, r *plugin.Request, v profile.Option, device string) ([]plugin.Item, error) {
				items, err := plan(ctx, r, v, device)
				return guard(r.Kinds, items), err
			}
		}
		return o
	}
	p.Options = slices.Clone(p.Options)
	for i := range p.Options {
		p.Options[i] = option(p.Options[i])
	}
	if free := p.Free; free != nil {
		p.Free = func(name string) (plugin.Option, bool) {
			o, ok := free(name)
			return option(o), ok
		}
	}
	if always := p.Always; always != nil {
		p.Always = func(ctx context.Context, r *plugin.Request) ([]plugin.Item, error) {
			items, err := always(ctx, r)
			return guard(r.Kinds, items), err
		}
	}
	return p
}

// withoutScripts removes device-specific scripts from a profile's sections, unless scripts are
// allowed; no plug-in has them as options.
func withoutScripts(p *profile.Profile, allow tuned.Allow) {
	if allow[tuned.Script] {
		return
	}
	for i := range p.Units {
		u := &p.Units[i]
		for _, s := range []struct {
			option string
			script *string
		}{{"script_pre", &u.ScriptPre}, {"script_post", &u.ScriptPost}} {
			if *s.script != "" {
				p.Warnings = append(p.Warnings, profile.Warning{Pos: u.At(s.option), Text: fmt.Sprintf("%s=%s is refused; to allow it, start the agent with --allow=script", s.option, *s.script)})
				*s.script = ""
			}
		}
	}
}
