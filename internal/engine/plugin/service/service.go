// Package service has two plug-ins. service starts, stops, enables and disables services of
// systemd, OpenRC and System V init, and installs drop-ins of systemd units. script runs a
// profile's own programs.
package service

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Service turns [service] sections into changes.
var Service = plugin.Plugin{
	Name: "service",
	Doc:  "starts, stops, enables and disables services, and installs drop-ins of systemd units",
	Free: func(name string) (plugin.Option, bool) {
		unit, ok := strings.CutPrefix(name, "service.")
		if !ok || unit == "" {
			return plugin.Option{}, false
		}
		return plugin.Option{
			Name: name,
			Doc:  "start, stop, enable, disable or file:PATH, separated by commas or semicolons; of contradicting words the last applies",
			Plan: plan,
		}, true
	},
}

// desired is the parsed value of one option; a nil field was not given.
type desired struct {
	active, enabled *bool
	file            string
}

var separator = text.LazyRegexp(`\s*[,;]\s*`)

func parseDesired(value string) (desired, error) {
	yes, no := true, false
	var w desired
	for _, word := range separator().Split(strings.TrimSpace(value), -1) {
		switch file, isFile := strings.CutPrefix(word, "file:"); {
		case word == "start":
			w.active = &yes
		case word == "stop":
			w.active = &no
		case word == "enable":
			w.enabled = &yes
		case word == "disable":
			w.enabled = &no
		case isFile && file != "":
			w.file = file
		case word == "":
		default:
			return desired{}, plugin.Invalid("%q is not one of start, stop, enable, disable, file:PATH", word)
		}
	}
	return w, nil
}

// unitName matches the characters that systemd.unit(5) allows in a name, which include those of
// System V and OpenRC service names.
var unitName = text.LazyRegexp(`^[A-Za-z0-9:_.\\@-]+$`)

func plan(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	name := strings.TrimPrefix(o.Name, "service.")
	if !unitName().MatchString(name) || strings.HasPrefix(name, "-") || strings.HasPrefix(name, ".") {
		return nil, plugin.Invalid("%q is not the name of a service", name)
	}
	w, err := parseDesired(o.Value)
	if err != nil {
		return nil, err
	}
	init := initOf(r.Host)
	if init == serviceSystemd {
		name = withSuffix(name)
	}
	var items []plugin.Item
	if w.file != "" {
		items = append(items, dropIn(r, o, init, name, w)...)
	}
	want := func(aspect, value string) error {
		s := setting.Setting{Kind: "unit", Name: name + "/" + aspect}
		now, err := r.Kinds.Read(ctx, s)
		it := plugin.Want(s, value, o)
		switch {
		case err != nil:
			return err
		case now.Absent:
			it.Verdict, it.Why = plugin.Unsupported, "no such service: "+name
		case aspect == "enabled" && now.Text != "enabled" && now.Text != "disabled":
			it.Verdict, it.Why = plugin.Unsupported, fmt.Sprintf("the unit file is %s, so the service can be neither enabled nor disabled", now.Text)
		}
		items = append(items, it)
		return nil
	}
	words := map[bool][2]string{true: {"active", "enabled"}, false: {"inactive", "disabled"}}
	if w.active != nil {
		if err := want("active", words[*w.active][0]); err != nil {
			return nil, err
		}
	}
	if w.enabled != nil {
		if err := want("enabled", words[*w.enabled][1]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// withSuffix adds .service to a unit's name without a suffix, as systemctl does.
func withSuffix(name string) string {
	switch path.Ext(name) {
	case ".service", ".socket", ".timer", ".target", ".mount", ".path", ".slice", ".automount", ".swap", ".device", ".scope":
		return name
	}
	return name + ".service"
}

// dropIn plans file:PATH: a copy of the file in the unit's drop-in directory and, with start, a
// restart of the service.
func dropIn(r *plugin.Request, o profile.Option, init initSystem, name string, w desired) []plugin.Item {
	aspect := "dropin/"
	if w.active != nil && *w.active {
		aspect = "dropin+restart/"
	}
	s := setting.Setting{Kind: "unit", Name: name + "/" + aspect + path.Base(w.file)}
	switch {
	case init != serviceSystemd:
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "drop-ins need systemd, which does not run on this machine")}
	case !path.IsAbs(w.file):
		return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "%s: not an absolute path; write file:${i:PROFILE_DIR}/%s", w.file, w.file)}
	case path.Ext(w.file) != ".conf":
		return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "%s: systemd reads only drop-ins whose name ends in .conf", w.file)}
	}
	if err := profile.Trusted(r.Host, w.file); err != nil {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unusable(err), "%v", err)}
	}
	content, err := r.Host.Files.ReadFile(w.file)
	if err != nil {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "%v", err)}
	}
	return append(plugin.WantDir(r.Host, dropInDir(name), o), plugin.Want(s, string(content), o))
}
