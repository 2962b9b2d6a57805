package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const head = `# What etcd of each release knows. Written by test/etcd-releases; not by hand.
#
# release RELEASE MODULE VERSION
# flag NAME KIND RELEASE[=DEFAULT] ...   (embed/config.go, etcdmain/config.go): "ignored" ones
#                                        have no effect; no default is written that is empty
#                                        or is calculated
# gate FLAG NAME                         of feature-gates, which took the place of a flag
# feature NAME RELEASE ...               that feature-gates takes (features/etcd_features.go)
# key NAME RELEASE ...                   of the configuration file, a.b for b within a
`

// generate is the text of the table.
func generate(network bool) (string, error) {
	dirs, err := download(network)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	flags, keys, features, gates := map[string]map[string]flag{}, map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, r := range releases {
		fmt.Fprintf(&b, "release %s %s %s\n", r.name, r.module, r.version)
		s := &source{release: r, dir: dirs[r.module+"@"+r.version], packages: map[string]*pkg{}}
		of, err := s.flags()
		if err != nil {
			return "", err
		}
		if r.name == "3.4" {
			maps.Copy(of, backported)
		}
		for name, f := range of {
			if flags[name] == nil {
				flags[name] = map[string]flag{}
			}
			flags[name][r.name] = f
		}
		now, err := s.gates()
		if err != nil {
			return "", err
		}
		maps.Copy(gates, now)
		known, err := s.features()
		if err != nil {
			return "", err
		}
		for _, name := range known {
			features[name] = append(features[name], r.name)
		}
		names, err := s.keys()
		if err != nil {
			return "", err
		}
		if r.name == "3.4" {
			names = slices.AppendSeq(names, maps.Keys(backported))
		}
		for _, name := range names {
			keys[name] = append(keys[name], r.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		kind, line := "", ""
		for _, r := range releases {
			f, ok := flags[name][r.name]
			if !ok {
				continue
			}
			if kind != "" && kind != f.kind {
				return "", fmt.Errorf("%s is %s, and %s in %s: the table has one kind", name, kind, f.kind, r.name)
			}
			kind, line = f.kind, line+" "+r.name
			if f.def != "" && !strings.ContainsAny(f.def, " \t\n") {
				line += "=" + f.def
			}
		}
		fmt.Fprintf(&b, "flag %s %s%s\n", name, kind, line)
	}
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		fmt.Fprintf(&b, "gate %s %s\n", name, gates[name])
	}
	for _, name := range slices.Sorted(maps.Keys(features)) {
		fmt.Fprintf(&b, "feature %s %s\n", name, strings.Join(features[name], " "))
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&b, "key %s %s\n", name, strings.Join(keys[name], " "))
	}
	return b.String(), nil
}
