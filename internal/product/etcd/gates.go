package etcd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// refusedGates returns the feature gates with which a release does not start.
func (in *instance) refusedGates(r Release) (out []string, err error) {
	value, _, _ := in.option("feature-gates")
	if !has(Known().flagIn("feature-gates"), r) || strings.Contains(value.text, "$") {
		return nil, nil
	}
	refuse := func(name, at, format string, args ...any) {
		out = append(out, fmt.Sprintf("feature gate %s, %s ", name, at)+fmt.Sprintf(format, args...))
	}
	on, set, place := map[string]bool{}, map[string]bool{}, value.at
	for pair := range strings.SplitSeq(value.text, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		set[name] = true
		if !has(Known().features[name], r) {
			if Known().features[name] == nil && r > Known().Newest {
				return nil, fmt.Errorf("unknown whether etcd %s has the feature gate %s; this version of fettle knows releases up to %s", r, name, Known().Newest)
			}
			refuse(name, value.at, "(%s)", cmp.Or(Known().span(Known().features[name]), "unknown feature gate"))
		}
		if on[name], err = strconv.ParseBool(strings.TrimSpace(text)); err != nil {
			refuse(name, value.at, "(want true or false, found %q)", text)
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(Known().gates)) {
		gate := Known().gates[flag]
		old, ok, _ := in.option(flag)
		switch {
		case !ok || !has(Known().flagIn(flag), r):
		case strings.Contains(value.text, gate): // as etcd compares them
			refuse(gate, value.at, "(%s, %s, also sets this gate; etcd accepts only one of them)", flag, old.at)
		default:
			set[gate], place = true, cmp.Or(place, old.at)
			on[gate], _ = strconv.ParseBool(old.text)
		}
	}
	// Source: etcd v3.6.12 and v3.7.3, embed/config.go, Config.Validate.
	const lease, persist = "LeaseCheckpoint", "LeaseCheckpointPersist"
	if on[persist] && !on[lease] && (set[lease] || !on["AllAlpha"]) {
		refuse(persist, place, "(needs %s=true)", lease)
	}
	return out, nil
}
