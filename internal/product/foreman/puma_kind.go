package foreman

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// rootsOf returns /etc and the directories of configuration files outside of packages.
func rootsOf(h *host.Host) []string {
	out := []string{"/etc"}
	all, err := pumaInstances(h)
	if err != nil {
		return out
	}
	for _, in := range all {
		for _, f := range in.files {
			if dir := path.Dir(f); !packaged(f) && dir != "/" && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	return out
}

func pumaMains(h *host.Host) ([]conf.Instance, error) {
	all, err := pumaInstances(h)
	var out []conf.Instance
	for _, in := range all {
		if m := in.main(); m != "" {
			out = append(out, conf.Instance{Name: in.name, Main: m})
		}
	}
	return out, err
}

// alias returns the variable that decides an option, or the option's own name.
func alias(h *host.Host, main, key string) string {
	in, err := belongs(h, main)
	if err != nil || !isOption(key) {
		return key
	}
	t := in.option(key, in.get)
	if t.variable == "" || t.text == "" && slices.Contains(in.files, main) {
		return key
	}
	return t.variable
}

func isOption(key string) bool {
	return parameters.Named(key) != nil
}

// decides returns the options that a key sets: the option with this name, or the options that read
// this variable.
func (in *pumaInstance) decides(key string) []string {
	if isOption(key) {
		return []string{key}
	}
	var out []string
	for _, p := range parameters {
		if in.option(p.Name, in.get).variable == key {
			out = append(out, p.Name)
		}
	}
	return out
}

// winner returns the line that sets an option or a variable; ok is false if no line does.
func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	in, err := belongs(h, main)
	if err != nil {
		return conf.Place{}, false, err
	}
	if isOption(key) {
		t := in.option(key, in.get)
		switch {
		case t.place != nil:
			return *t.place, true, nil
		case t.text == "" && t.unknown == "":
			return conf.Place{}, false, nil
		case t.variable != "":
			return conf.Place{}, false, fmt.Errorf("%s takes this value from the variable %s; set puma:%s", t.at, t.variable, t.variable)
		case t.unknown != "":
			return conf.Place{}, false, fmt.Errorf("%s: %s", t.at, t.unknown)
		}
		return conf.Place{}, false, fmt.Errorf("%s already sets %s; change it by hand", t.at, key)
	}
	_, at, ok, unknown := in.get(key)
	switch {
	case !ok && unknown != "":
		return conf.Place{}, false, errors.New(unknown)
	case !ok:
		return conf.Place{}, false, nil
	}
	file := at[:strings.LastIndexByte(at, ':')]
	if slices.Contains(in.unit.Files, file) && !in.own(file) {
		return conf.Place{}, false, fmt.Errorf("%s sets %s, but the file belongs to a package or several units; set it in a drop-in (systemctl edit %s)", at, key, in.unit.Name)
	}
	all, err := conf.PlacesIn(h, syntax{}, file)
	if err != nil {
		return conf.Place{}, false, err
	}
	for _, p := range slices.Backward(all) {
		if p.Key == key && p.String() == at {
			return p, true, nil
		}
	}
	return conf.Place{}, false, fmt.Errorf("%s sets %s in a form that undo could not restore; change it by hand", at, key)
}

// pumaMost is the maximum number of workers or threads that fettle accepts.
const pumaMost = 1000

// checkPuma returns an error for variables that no instance reads, and for values out of range.
func checkPuma(h *host.Host, key, value string) error {
	if !isOption(key) {
		all, err := pumaInstances(h)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(in *pumaInstance) bool { return len(in.decides(key)) > 0 }) {
			return fmt.Errorf("%w: Puma does not read workers or threads from %s", setting.ErrNotSettable, key)
		}
	}
	if n, err := strconv.Atoi(value); err != nil || n < 0 || n > pumaMost {
		return fmt.Errorf("%q: want a number from 0 to %d", value, pumaMost)
	}
	return nil
}

// pumaEffect returns OK if the running server has a key's value in the files. A key may decide
// several options.
func pumaEffect(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
	in, err := belongs(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	r, err := runningOf(ctx, h, in)
	if err != nil {
		return product.Effect(product.Unclear, err)
	}
	for _, name := range in.decides(key) {
		v, unknown := runs(in, r, name)
		switch {
		case unknown != "":
			return plugin.Unknown, name + ": " + unknown
		case v != value:
			return plugin.NeedsRestart, "the server runs with " + v + " until it is restarted"
		}
	}
	return plugin.OK, ""
}

// runningOf returns an instance's running server, or product.ErrStopped.
func runningOf(ctx context.Context, h *host.Host, in *pumaInstance) (*pumaRunning, error) {
	all, err := pumaInstances(h)
	if err != nil {
		return nil, err
	}
	run, err := pumaQuestion(ctx, h, all)
	if err != nil {
		return nil, err
	}
	for n := range run {
		if pumaOf(run[n], []*pumaInstance{in}) == in {
			return &run[n], nil
		}
	}
	return nil, product.ErrStopped
}
