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

// releaseInputs are answered by the member's release.
var releaseInputs = []fact.Input{
	{Name: "etcd.refused_options", Type: fact.List, Doc: "flags, variables and keys with which this release does not start"},
	{Name: "etcd.ignored_options", Type: fact.List, Doc: "variables and keys of the configuration file that this release ignores"},
	{Name: "etcd.installed_version", Type: fact.Text, Doc: "version of a cluster's member now, whatever release it is judged as; absent on a machine"},
	{Name: "etcd.least_version", Type: fact.Text, Doc: "oldest external etcd that kubeadm accepts with the cluster's release of Kubernetes; absent for members that kubeadm installs itself, and on a machine"},
	{Name: "etcd.skipped_releases", Type: fact.List, Doc: "releases between a member's and the one that kubeadm installs with another release of Kubernetes; absent for members that kubeadm does not install"},
}

// AsksRelease reports whether an input's answer depends on the release only.
func AsksRelease(input string) bool {
	return slices.ContainsFunc(releaseInputs, func(in fact.Input) bool {
		return input == strings.Replace(in.Name, "etcd.", "etcd.*.", 1) || input == in.Name
	})
}

// As is the product as if its members were of another release: what their flags and files
// mean there.
func As(r Release) product.Product {
	p := Product
	p.Find = func(ctx context.Context, h *host.Host) ([]product.Installed, error) {
		all, err := find(ctx, h)
		for _, i := range all {
			i.(*installed).version = fact.Answer{Value: r.String(), At: "--for " + r.String()}
		}
		return all, err
	}
	return p
}

// versionOf is the version of a member: as it reports it, by the tag of its pod's image, or
// by the package that has its program.
func (in *instance) versionOf(h *host.Host, a *answer) fact.Answer {
	switch {
	case a != nil && a.Version != "":
		return fact.Answer{Value: a.Version, At: "/metrics of etcd"}
	case in.pod():
		if tag := tagged(in.image.text); tag != "" {
			return fact.Answer{Value: tag, At: in.image.at}
		}
		return fact.Answer{Unknown: fmt.Sprintf("the image %q has no version in its tag: etcd --version in its container prints it", in.image.text), At: in.Main}
	}
	if v, at := product.Version(h, "etcd-server", "etcd"); v != "" && slices.Contains([]string{"/usr/bin", "/bin"}, path.Dir(in.program)) {
		return fact.Answer{Value: v, At: at}
	}
	return fact.Answer{Unknown: fmt.Sprintf("neither the member nor a package says which version of etcd this is: %s --version prints it", cmp.Or(in.program, "etcd")), At: in.Main}
}

// release is that of the member; false where it is not known.
func (i *installed) release() (Release, bool) {
	text, _ := i.version.Value.(string)
	return ParseRelease(text)
}

// Default implements component.Defaulter. Where the release is not known and others have
// another default, the source says so.
func (i *installed) Default(name string) (value, source string) {
	r, known := i.release()
	if !known {
		r = Known().Newest
	}
	value, ok := Known().def(name, r)
	if !ok {
		return "", ""
	}
	source = "the default of etcd " + r.String()
	if other, _ := Known().def(name, Known().Oldest); !known && other != value {
		source += fmt.Sprintf(", a guess: %s had %s, and the version of this one is not known", Known().Oldest, other)
	}
	return value, source
}

// byRelease answers a releaseInput; ok is false for other inputs.
func (i *installed) byRelease(input string) (a fact.Answer, ok bool) {
	switch input {
	case "refused_options", "ignored_options":
		switch {
		case i.flags == nil: // those of a member without a pod are on its machine
			return fact.Answer{}, true
		case input == "refused_options":
			return i.judged(i.refused), true
		}
		return i.judged(i.ignored), true
	case "installed_version", "least_version", "skipped_releases":
		return i.cluster[input], true
	}
	return fact.Answer{}, false
}

// judged is a list by the member's release. Where that is not known, the answer is what all
// releases agree in.
func (i *installed) judged(by func(Release) (list []string, unknown error)) fact.Answer {
	r, known := i.release()
	if known && r < Known().Oldest {
		return fact.Answer{Unknown: fmt.Sprintf("etcd %s is older than the releases that are known here, %s to %s", r, Known().Oldest, Known().Newest), At: i.version.At}
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
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		}
		if n > 0 && !slices.Equal(list, first) {
			return fact.Answer{Unknown: i.version.Unknown, At: i.version.At}
		}
		first = list
	}
	if first == nil {
		first = []string{}
	}
	return fact.Answer{Value: first, At: i.Main}
}

// refused are the reasons for which a release does not start: etcd reads its flags first, also
// where it has a configuration file, and does not take an option from a flag and a variable.
func (i *installed) refused(r Release) (out []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(i.flags)) {
		t := i.flags[name]
		known := has(Known().flagIn(name), r)
		env, twice := i.env[name]
		switch {
		case strings.Contains(name, "$"):
		case !known && r > Known().Newest && Known().kind(name) == "":
			return nil, fmt.Errorf("whether etcd %s has the flag --%s is not known: the newest release known here is %s", r, name, Known().Newest)
		case !known:
			out = append(out, fmt.Sprintf("--%s, %s%s", name, t.at, why(name, Known().flagIn(name), r)))
		case twice && i.config == nil && !i.script:
			out = append(out, fmt.Sprintf("--%s, %s, and the variable %s, %s: etcd takes one of them", name, t.at, variable(name), env.at))
		}
	}
	if word := i.word; word.text != "" {
		out = append(out, fmt.Sprintf("%q, %s: not a flag (the value of a switch is written --NAME=VALUE)", word.text, word.at))
	}
	if i.config == nil {
		return out, nil
	}
	for _, k := range i.config.keys {
		if _, err := strconv.ParseInt(k.text, 0, 64); err != nil && k.text != "" && has(Known().keys[k.name], r) && Known().kind(k.name) == "duration" {
			out = append(out, fmt.Sprintf("%s: %s, %s: here a time is a number of nanoseconds", k.name, k.text, k.at))
		}
	}
	return out, nil
}

// ignored are the variables and keys that a release ignores: of variables its log has a line,
// of keys nothing.
func (i *installed) ignored(r Release) (out []string, err error) {
	if i.script {
		return nil, nil // it may set and remove variables
	}
	if i.unread != "" {
		return nil, errors.New(i.unread)
	}
	if i.config == nil {
		for _, name := range slices.Sorted(maps.Keys(i.env)) {
			t := i.env[name]
			if in := Known().flagIn(name); t.text != "" && !has(in, r) && name != "unsupported-arch" {
				if r > Known().Newest && in == nil {
					return nil, fmt.Errorf("whether etcd %s has %s is not known: the newest release known here is %s", r, variable(name), Known().Newest)
				}
				out = append(out, fmt.Sprintf("%s, %s%s", variable(name), t.at, why(name, in, r)))
			}
		}
		return out, nil
	}
	for _, k := range i.config.keys {
		in := Known().keys[k.name]
		if has(in, r) {
			continue
		}
		if r > Known().Newest && in == nil {
			return nil, fmt.Errorf("whether etcd %s has the key %s is not known: the newest release known here is %s", r, k.name, Known().Newest)
		}
		reason := why(k.name, in, r)
		if in == nil {
			reason = text.Suggest(k.name, slices.Collect(maps.Keys(Known().keys)))
		}
		out = append(out, fmt.Sprintf("%s, %s%s", k.name, k.at, reason))
	}
	return out, nil
}

// why says in which releases a flag or a key is, and what a release has in its place, or what
// it may be a slip of.
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

// has reports whether a list has a release; what the newest known one has is taken for later
// ones' too.
func has(in []Release, r Release) bool { return slices.Contains(in, min(r, Known().Newest)) }
