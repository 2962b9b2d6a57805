// plugintest helps to test plug-ins on simulated machines.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Join merges the files of several trees. Later trees take precedence.
func Join(trees ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, tree := range trees {
		for p, content := range tree {
			all[p] = content
		}
	}
	return all
}

// Unit creates a unit from lines "name=value". A line "devices=..." selects devices.
func Unit(typ string, lines ...string) *profile.Unit {
	u := &profile.Unit{Name: typ, Type: typ, Enabled: true, Devices: "*", Pos: profile.Pos{File: "p.conf", Line: 1}}
	for i, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		pos := profile.Pos{File: "p.conf", Line: i + 2}
		switch name {
		case "devices":
			u.Devices = value
		case "devices_udev_regex":
			u.DevicesUdevRegex = value
		default:
			u.Options = append(u.Options, profile.Option{Name: name, Value: value, Raw: value, Pos: pos})
		}
	}
	return u
}

// PlanPlugintest plans a unit as the planner does and returns a line for each item:
//
//	sysfs:/sys/x = 1
//	sysfs:/sys/x = >4096 # why
//	sysctl:y ! refused: why
//
// Devices are assigned from the machine. A unit without devices plans nothing,
// and its line reports that.
func PlanPlugintest(t testing.TB, p plugin.Plugin, h *host.Host, u *profile.Unit, change ...func(*plugin.Request)) []string {
	t.Helper()
	var lines []string
	for _, it := range Items(t, p, h, setting.Kernel(h), u, change...) {
		lines = append(lines, Line(it))
	}
	if p.Devices != nil {
		_, problems := plugin.Assign(context.Background(), h, []plugin.Plugin{p}, []*profile.Unit{u})
		for _, pr := range problems {
			lines = append(lines, pr.String())
		}
	}
	return lines
}

// Items plans a unit and returns the items.
func Items(t testing.TB, p plugin.Plugin, h *host.Host, kinds setting.Kinds, u *profile.Unit, change ...func(*plugin.Request)) []plugin.Item {
	t.Helper()
	ctx := context.Background()
	r := &plugin.Request{Host: h, Kinds: kinds, Unit: *u, Original: func(s setting.Setting) (setting.Value, error) {
		return kinds.Read(ctx, s)
	}}
	if p.Devices != nil {
		assigned, _ := plugin.Assign(ctx, h, []plugin.Plugin{p}, []*profile.Unit{u})
		if r.Devices = assigned[u.Name]; len(r.Devices) == 0 {
			return nil
		}
	}
	for _, c := range change {
		c(r)
	}
	var items []plugin.Item
	if p.Always != nil {
		more, err := p.Always(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		items = more
	}
	for _, device := range append([]string{""}, r.Devices...) {
		for _, given := range inOrder(p, u.Options) {
			o, ok := p.Option(given.Name)
			if !ok {
				t.Fatal(p.UnknownOption(given))
			}
			plan := o.Plan
			switch {
			case o.PerDevice != (device != "") || o.Control && o.Check == nil:
				continue
			case o.Control:
				plan = func(context.Context, *plugin.Request, profile.Option, string) ([]plugin.Item, error) {
					return nil, o.Check(given)
				}
			}
			more, err := plan(ctx, r, given, device)
			var invalid *plugin.InvalidError
			switch {
			case errors.As(err, &invalid):
				more = []plugin.Item{plugin.Failed(u.Name, given, device, err)}
			case err != nil:
				t.Fatalf("%s: %v", given.Name, err)
			}
			Planned(t, h, p, given, more)
			items = append(items, more...)
		}
	}
	return items
}

// inOrder sorts the options in the plug-in's order, with free names last.
func inOrder(p plugin.Plugin, given []profile.Option) []profile.Option {
	place := func(o profile.Option) int {
		for i, known := range p.Options {
			if known.Name == o.Name {
				return i
			}
		}
		return len(p.Options)
	}
	sorted := slices.Clone(given)
	slices.SortStableFunc(sorted, func(a, b profile.Option) int { return place(a) - place(b) })
	return sorted
}

// Line formats an item as one line.
func Line(it plugin.Item) string {
	text := it.Change.Setting.String()
	if it.Verdict != "" {
		return fmt.Sprintf("%s ! %s: %s", text, it.Verdict, it.Why)
	}
	text += " = " + string(it.Change.Op) + it.Change.Want.String()
	if it.Why != "" {
		text += " # " + it.Why
	}
	if it.Fence {
		text += " |"
	}
	return text
}
