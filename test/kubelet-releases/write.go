package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

func pathMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// generate is the text of the table.
func generate(network bool) (string, error) {
	dirs, err := download(network)
	if err != nil {
		return "", err
	}
	var allFields, allGates, allDefaults, allNeeds, allWays, allEtcd, allFlags, allOptions []map[string]string // by release
	for _, r := range releases {
		names, err := fields(r, dirs)
		if err != nil {
			return "", err
		}
		known := map[string]string{}
		for _, name := range names {
			known[name] = "yes"
		}
		set, err := defaults(r, dirs, names)
		if err != nil {
			return "", err
		}
		open, err := gates(r, dirs)
		if err != nil {
			return "", err
		}
		needed, err := needs(r, dirs)
		if err != nil {
			return "", err
		}
		ways, err := loader(r, dirs)
		if err != nil {
			return "", err
		}
		etcd, err := kubeadmEtcd(r, dirs)
		if err != nil {
			return "", err
		}
		flags, err := programFlags(r, dirs)
		if err != nil {
			return "", err
		}
		options, err := policyOptions(r, dirs)
		if err != nil {
			return "", err
		}
		allFlags, allOptions = append(allFlags, flags), append(allOptions, options)
		allNeeds, allWays, allEtcd = append(allNeeds, needed), append(allWays, ways), append(allEtcd, etcd)
		allFields, allDefaults, allGates = append(allFields, known), append(allDefaults, set), append(allGates, open)
	}
	var b strings.Builder
	b.WriteString(head)
	for _, r := range releases {
		fmt.Fprintf(&b, "release 1.%d v1.%s v0.%s\n", r.minor, r.version, r.version)
	}
	for i, set := range allDefaults {
		for name := range allFields[i] {
			if _, ok := set[name]; !ok {
				set[name] = none
			}
		}
	}
	write(&b, "field", allFields)
	write(&b, "default", allDefaults)
	write(&b, "gate", allGates)
	write(&b, "needs", allNeeds)
	write(&b, "option", allOptions)
	write(&b, "loader", allWays)
	write(&b, "etcd", allEtcd)
	write(&b, "flag", allFlags)
	return b.String(), nil
}

// none is the default of a field without a default.
const none = "none"

const head = `# What the kubelet of each release of Kubernetes knows. Written by test/kubelet-releases; not
# by hand.
#
# release RELEASE VERSION VERSION   k8s.io/kubernetes; k8s.io/kubelet, apiserver,
#                                   apiextensions-apiserver, component-base, client-go,
#                                   controller-manager, cloud-provider
# field NAME RELEASES               of KubeletConfiguration (kubelet config/v1beta1/types.go)
# default NAME RELEASES:VALUE ...   those that differ between the releases with that field
#                                   (kubernetes pkg/kubelet/apis/config/v1beta1/defaults.go)
# gate NAME RELEASES:STAGE,DEFAULT  (pkg/features and what a kubelet adds to them)
# needs NAME RELEASES:GATE,GATE     gates without which a gate cannot be on (pkg/features)
# option FIELD NAME RELEASES:STAGE  of the policies of the CPU and topology managers
#                                   (pkg/kubelet/cm, policy_options.go)
# loader WAY RELEASES               how files are read and merged (cmd/kubelet/app/server.go)
# etcd default|least RELEASES:VERSION   that kubeadm installs, and the oldest external one that
#                                   it accepts (cmd/kubeadm/app/constants/constants.go)
# flag PROGRAM NAME RELEASES        of the kubelet and the programs that kubeadm starts
#                                   (test/kubelet-releases, flags.go, has the packages)
#
# 36-37 is 1.36 to 1.37. "locked": another value keeps the kubelet from starting.
`

// write writes a line for each name, with the releases of each of its values. It omits a default
// that is the same in all releases with the field.
func write(b *strings.Builder, kind string, all []map[string]string) {
	names := map[string]bool{}
	for _, m := range all {
		for name := range m {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var spans []string
		for i := 0; i < len(all); {
			value, ok := all[i][name]
			to := i
			for to+1 < len(all) {
				next, has := all[to+1][name]
				if has != ok || next != value {
					break
				}
				to++
			}
			if span := fmt.Sprintf("%d-%d", releases[i].minor, releases[to].minor); ok && slices.Contains([]string{"field", "flag", "loader"}, kind) {
				spans = append(spans, span)
			} else if ok {
				spans = append(spans, span+":"+value)
			}
			i = to + 1
		}
		if kind != "default" || len(spans) > 1 {
			fmt.Fprintf(b, "%s %s %s\n", kind, name, strings.Join(spans, " "))
		}
	}
}
