package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/text"
)

// releaseInputs are the inputs with answers that depend on the member's release.
var releaseInputs = []input{
	{Name: "refused_options", Type: fact.List, Doc: "flags, variables and keys with which this release does not start", Answer: func(i *installed) fact.Answer { return i.Files.judged(versionOf(i), i.Files.refused) }},
	{Name: "ignored_options", Type: fact.List, Doc: "variables and keys of the configuration file that this release ignores", Answer: func(i *installed) fact.Answer { return i.Files.judged(versionOf(i), i.Files.ignored) }},
	ofCluster("installed_version", fact.Text, "running version of a cluster's member, regardless of --for; absent on a machine"),
	ofCluster("least_version", fact.Text, "oldest external etcd that kubeadm accepts with the cluster's release of Kubernetes; absent for members that kubeadm installs itself, and on a machine"),
	ofCluster("skipped_releases", fact.List, "releases between a member's and the one that kubeadm installs with another release of Kubernetes; absent for members that kubeadm does not install"),
}

// ofCluster returns an input that only a cluster's API answers.
func ofCluster(name string, as fact.Type, doc string) input {
	return input{Name: name, Type: as, Doc: doc, Answer: func(i *installed) fact.Answer { return i.Files.cluster[name] }}
}

// AsksRelease reports whether an input depends only on the release.
func AsksRelease(name string) bool {
	return slices.ContainsFunc(releaseInputs, func(in input) bool { return name == "etcd.*."+in.Name || name == "etcd."+in.Name })
}

// As returns the product for another release: members' flags and files are judged as that release
// reads them.
func As(r Release) product.Product {
	p := Product
	p.Find = func(ctx context.Context, h *host.Host) ([]product.Installed, error) {
		all, err := Product.Find(ctx, h)
		for _, i := range all {
			i.(*installed).Files.version = fact.Answer{Value: r.String(), At: "--for " + r.String()}
		}
		return all, err
	}
	return p
}

// versionOf answers with the version for which a member is judged.
func versionOf(i *installed) fact.Answer {
	if v := i.Files.version; v.Value != nil || v.Unknown != "" {
		return v
	}
	return i.Files.versionOf(i.Host, i.Report)
}

// versionOf answers with the member's own version: from its report, its pod's image tag, or its
// program's package.
func (in *instance) versionOf(h *host.Host, a *answer) fact.Answer {
	switch {
	case a != nil && a.Version != "":
		return fact.Answer{Value: a.Version, At: "/metrics of etcd"}
	case in.pod():
		if tag := tagged(in.image.text); tag != "" {
			return fact.Answer{Value: tag, At: in.image.at}
		}
		return fact.Answer{Unknown: fmt.Sprintf("image %q has no version in its tag; see etcd --version in the container", in.image.text), At: in.Main}
	}
	if v, at := product.Version(h, "etcd-server", "etcd"); v != "" && slices.Contains([]string{"/usr/bin", "/bin"}, path.Dir(in.program)) {
		return fact.Answer{Value: v, At: at}
	}
	return fact.Answer{Unknown: fmt.Sprintf("version of etcd unknown (neither the member nor a package reports it); see %s --version", cmp.Or(in.program, "etcd")), At: in.Main}
}

// releaseOf parses the release of a version; ok is false if it is unknown.
func releaseOf(version fact.Answer) (Release, bool) {
	text, _ := version.Value.(string)
	return parseRelease(text)
}

// defaultOf returns the default of an option in a version. If the release is unknown and the
// default differs between releases, the source marks the value as a guess.
func defaultOf(version fact.Answer, name string) (value, source string) {
	r, known := releaseOf(version)
	if !known {
		r = Known().Newest
	}
	value, ok := Known().def(name, r)
	if !ok {
		return "", ""
	}
	source = "the default of etcd " + r.String()
	if other, _ := Known().def(name, Known().Oldest); !known && other != value {
		source += fmt.Sprintf(", a guess: %s had %s, and this version is unknown", Known().Oldest, other)
	}
	return value, source
}

// judged answers with a list for the member's release. If the release is unknown, the list must be
// the same for all releases; otherwise the answer is unknown.
func (in *instance) judged(version fact.Answer, by func(Release) (list []string, unknown error)) fact.Answer {
	if in.flags == nil { // the cluster's API does not show the flags
		return fact.Answer{Unknown: in.unread, At: in.Main}
	}
	r, known := releaseOf(version)
	if known && r < Known().Oldest {
		return fact.Answer{Unknown: fmt.Sprintf("etcd %s is older than the releases that fettle knows, %s to %s", r, Known().Oldest, Known().Newest), At: version.At}
	}
	of := []Release{r}
	if !known {
		of = nil
		for r := Known().Oldest; r <= Known().Newest; r++ {
			of = append(of, r)
		}
	}
	var first []string
	for n, r := range of {
		list, err := by(r)
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: in.Main}
		}
		if n > 0 && !slices.Equal(list, first) {
			return fact.Answer{Unknown: version.Unknown, At: version.At}
		}
		first = list
	}
	if first == nil {
		first = []string{}
	}
	return fact.Answer{Value: first, At: in.Main}
}

// refused returns the reasons that a release does not start. etcd parses its flags even if it has a
// configuration file. It rejects an option that both a flag and a variable set.
func (in *instance) refused(r Release) (out []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(in.flags)) {
		t := in.flags[name]
		known := has(Known().flagIn(name), r)
		env, twice := in.env[name]
		switch {
		case strings.Contains(name, "$"):
		case !known && r > Known().Newest && Known().kind(name) == "":
			return nil, fmt.Errorf("unknown whether etcd %s has the flag --%s; this version of fettle knows releases up to %s", r, name, Known().Newest)
		case !known:
			out = append(out, fmt.Sprintf("--%s, %s%s", name, t.at, why(name, Known().flagIn(name), r)))
		case twice && in.config == nil && !in.script:
			out = append(out, fmt.Sprintf("--%s (%s) and the variable %s (%s) are both set; etcd accepts only one", name, t.at, variable(name), env.at))
		}
	}
	gates, err := in.refusedGates(r)
	if err != nil {
		return nil, err
	}
	out = append(out, gates...)
	if word := in.word; word.text != "" {
		out = append(out, fmt.Sprintf("%q, %s: not a flag (write the value of a switch as --NAME=VALUE)", word.text, word.at))
	}
	if in.config == nil {
		return out, nil
	}
	for _, k := range in.config.keys {
		if _, err := strconv.ParseInt(k.text, 0, 64); err != nil && k.text != "" && has(Known().keys[k.name], r) && Known().kind(k.name) == "duration" {
			out = append(out, fmt.Sprintf("%s: %s, %s: in this file a time is a number of nanoseconds", k.name, k.text, k.at))
		}
	}
	return out, nil
}

// ignored returns the variables and keys that a release ignores. etcd logs ignored variables, but
// not ignored keys.
func (in *instance) ignored(r Release) (out []string, err error) {
	if in.script {
		return nil, nil // the script may set and remove variables
	}
	if in.unread != "" {
		return nil, errors.New(in.unread)
	}
	if in.config == nil {
		for _, name := range slices.Sorted(maps.Keys(in.env)) {
			t := in.env[name]
			if releases := Known().flagIn(name); t.text != "" && !has(releases, r) && name != "unsupported-arch" {
				if r > Known().Newest && releases == nil {
					return nil, fmt.Errorf("unknown whether etcd %s has %s; this version of fettle knows releases up to %s", r, variable(name), Known().Newest)
				}
				out = append(out, fmt.Sprintf("%s, %s%s", variable(name), t.at, why(name, releases, r)))
			}
		}
		return out, nil
	}
	for _, k := range in.config.keys {
		releases := Known().keys[k.name]
		if has(releases, r) {
			continue
		}
		if r > Known().Newest && releases == nil {
			return nil, fmt.Errorf("unknown whether etcd %s has the key %s; this version of fettle knows releases up to %s", r, k.name, Known().Newest)
		}
		reason := why(k.name, releases, r)
		if releases == nil {
			reason = text.Suggest(k.name, slices.Collect(maps.Keys(Known().keys)))
		}
		out = append(out, fmt.Sprintf("%s, %s%s", k.name, k.at, reason))
	}
	return out, nil
}

// why explains a rejected flag or key: the releases that have it and its replacement, or the name
// that it may be a misspelling of.
func why(name string, in []Release, r Release) string {
	span := Known().span(in)
	if span == "" {
		return text.Suggest(name, slices.Collect(maps.Keys(Known().flags)))
	}
	if now := Known().successor(name, r); now != "" {
		span += "; now " + now
	}
	return " (" + span + ")"
}

// has reports whether a list contains a release. A release newer than all known ones counts as the
// newest.
func has(in []Release, r Release) bool { return slices.Contains(in, min(r, Known().Newest)) }
