package haproxy

import (
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/product/conf"
)

// candidates returns the lines that may set an option of a proxy, directly or through its defaults,
// by precedence. unset reports whether all of them may fail to apply.
func (s settings) candidates(proxy int, is func(option) bool) (found []option, unset bool, err error) {
	for range 20 { // defaults may inherit from other defaults
		for n := len(s.options) - 1; n >= 0; n-- {
			o := s.options[n]
			if o.section != proxy || !is(o) {
				continue
			}
			if found = append(found, o); !o.maybe {
				return found, false, nil
			}
		}
		if proxy, err = s.defaultsOf(proxy); proxy < 0 || err != nil {
			break
		}
	}
	return found, true, err
}

func named(names ...string) func(option) bool {
	return func(o option) bool { return slices.Contains(names, o.option) }
}

// effective returns an option of a proxy, or else of its defaults. It returns an error if the
// result depends on a condition or on the environment.
func (s settings) effective(proxy int, name string) (option, bool, error) {
	return s.effectiveOf(proxy, named(name))
}

// effectiveOf returns a proxy's last matching option, set directly or through its defaults.
func (s settings) effectiveOf(proxy int, is func(option) bool) (option, bool, error) {
	all, unset, err := s.candidates(proxy, is)
	if err != nil || len(all) == 0 {
		return option{}, false, err
	}
	for _, o := range all {
		if unset || o.option != all[0].option || o.value() != all[0].value() {
			return all[0], true, inCondition(all[0])
		}
		if o.unknown() {
			return o, true, fmt.Errorf("%s: value comes from an environment variable", o.Place)
		}
	}
	return all[0], true, nil
}

func inCondition(o option) error {
	return fmt.Errorf("%s: inside .if, whose outcome depends on the environment or HAProxy's build", o.Place)
}

// missing reports whether a proxy lacks a timeout, or has it set to 0. If the answer is Perhaps,
// the error names the cause.
func (s settings) missing(proxy int, name string) (conf.Truth, error) {
	all, unset, err := s.candidates(proxy, named(name))
	if err != nil {
		return conf.Perhaps, err
	}
	without, with := unset, false
	for _, o := range all {
		if o.unknown() {
			return conf.Perhaps, fmt.Errorf("%s: value comes from an environment variable", o.Place)
		}
		v, err := readDuration(o.value())
		if err != nil {
			return conf.Perhaps, fmt.Errorf("%s: %w", o.Place, err)
		}
		without = without || v == 0.0
		with = with || v != 0.0
	}
	if with && without {
		return conf.Perhaps, inCondition(all[0])
	}
	return conf.TruthOf(without), nil
}

// has reports whether a section sets one of the options.
func (s settings) has(n int, names ...string) conf.Truth {
	t, is := conf.No, named(names...)
	for _, o := range s.options {
		switch {
		case o.section != n || !is(o):
		case o.maybe:
			t = max(t, conf.Perhaps)
		default:
			return conf.Yes
		}
	}
	return t
}

// disabled reports whether the configuration disables a proxy.
func (s settings) disabled(n int) (conf.Truth, error) {
	all, unset, err := s.candidates(n, named("disabled", "enabled"))
	if err != nil || len(all) == 0 {
		return conf.No, err
	}
	off, on := false, unset
	for _, o := range all {
		off, on = off || o.option == "disabled", on || o.option == "enabled"
	}
	if off && on {
		return conf.Perhaps, nil
	}
	return conf.TruthOf(off), nil
}

// timeless returns the proxies that may wait forever for a client or a server, with their missing
// timeouts. HAProxy 2.6 and 3.0 warn about the same (src/cfgparse.c, check_config_validity), also
// for a ring with servers (src/sink.c). A tunnel timeout replaces the server timeout if connections
// pass through unchanged. The error names an undecidable proxy if no timeout is known to be
// missing.
func (s settings) timeless() ([]string, error) {
	out := []string{}
	var unknown error
	for n, x := range s.sections {
		front := x.kind == "frontend" || x.kind == "listen"
		back := x.kind == "backend" || x.kind == "listen" || x.kind == "ring"
		if !front && !back {
			continue
		}
		off, err := s.disabled(n)
		if err == nil && off == conf.Yes {
			continue
		}
		lacks := func(name string, matters conf.Truth) {
			if err != nil || matters == conf.No {
				return
			}
			is, why := s.missing(n, name)
			if err = why; err != nil {
				return
			}
			switch min(is, matters, off.Not(), x.counts) {
			case conf.Yes:
				out = append(out, x.key()+": "+name)
			case conf.Perhaps:
				err = fmt.Errorf("%s: %s may be missing; it depends on a condition (.if)", x.key(), name)
			}
		}
		lacks("timeout client", conf.TruthOf(front))
		servers := min(s.has(n, "server", "server-template"), conf.TruthOf(back))
		lacks("timeout connect", servers)
		if servers != conf.No && err == nil {
			tunnel := conf.Yes
			if x.kind != "ring" {
				tunnel, err = s.untunneled(n)
			}
			lacks("timeout server", min(servers, tunnel))
		}
		if err != nil && unknown == nil {
			unknown = err
		}
	}
	if len(out) > 0 {
		unknown = nil
	}
	return out, unknown
}

// untunneled reports whether a proxy has no tunnel timeout that replaces the server timeout.
func (s settings) untunneled(n int) (conf.Truth, error) {
	mode, ok, err := s.effective(n, "mode")
	if err != nil {
		return conf.Perhaps, err
	}
	if ok && mode.value() == "http" {
		return conf.Yes, nil
	}
	return s.missing(n, "timeout tunnel")
}
