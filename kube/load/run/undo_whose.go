package run

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/kube/load/plan"
)

// key is a 128-bit hash that identifies an object in a cluster, so that many keys need little
// memory.
type key [16]byte

func keyOf(parts ...string) key {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return key(sum[:16])
}

// Kinds of keys: an object by UID; a service in a namespace; a secret that an account lists; a
// stateful set's claims without their numbers.
func objectKey(uid string) key                      { return keyOf("object", uid) }
func serviceKey(namespace, name string) key         { return keyOf("service", namespace, name) }
func listedKey(namespace, account, name string) key { return keyOf("listed", namespace, account, name) }
func claimKey(namespace, base string) key           { return keyOf("claim", namespace, base) }

// Annotations and labels that name the owner of an object.
const (
	serviceLabel = "kubernetes.io/service-name"     // of endpoint slices
	tokenNote    = "openshift.io/token-secret.name" // of a pull secret: the token in it
	copiedLabel  = "olm.copiedFrom"                 // of cluster service versions
	versions     = "clusterserviceversions"         // of operators.coreos.com
)

// pending is an object that belongs to the run or to a controller, depending on its owners, which
// are not known yet.
type pending struct {
	resource, namespace, name string
	// The object is not another client's if any of these keys is known, or all of its owners are.
	any    []key
	owners []owner
	// gives are the keys that become known once the object is known.
	gives []key
	// going means that the object is being deleted, labelled that it has the run's label.
	going, labelled bool
}

// owner is an object's owner. kind is nil for cluster-wide kinds and kinds that the server cannot
// list.
type owner struct {
	key
	kind *plan.Kind
}

// settleAt is the minimum number of pending objects before they are checked again.
const settleAt = 4096

// lookedAgain limits repeated searches for missing owners: an object created while lists are read
// may be seen without its owner.
const lookedAgain = 3

// found collects, for each namespace of the run, a reason to keep it: an object that another
// client created, or content that could not be read. If there are several, it keeps the
// alphabetically first one, so that the order of reading does not change the result.
type found struct {
	spaces    map[string]int
	kinds     map[string]*plan.Kind // by group and kind
	openShift bool
	run       string

	mu            sync.Mutex
	known         map[key]struct{} // keys of objects of the run or of controllers
	pending       []pending
	settle        int // number of pending objects that triggers a check
	holds, unseen map[string]string
}

// found returns the initial state, before any list is read: only the run's own objects are known.
func (u *Undo) found(spaces map[string]int, queries []query) *found {
	f := &found{run: u.Plan.Run, spaces: spaces, kinds: map[string]*plan.Kind{}, settle: settleAt, holds: map[string]string{}, unseen: map[string]string{}}
	for _, q := range queries {
		f.kinds[plan.GroupOf(q.APIVersion)+"/"+q.Kind.Kind] = &q.Kind
		f.openShift = f.openShift || strings.HasSuffix(plan.GroupOf(q.APIVersion), ".openshift.io")
	}
	if u.State == nil {
		f.known = map[key]struct{}{}
		return f
	}
	f.known = make(map[key]struct{}, len(u.State.Objects))
	for i, o := range u.State.Objects {
		switch o.Was {
		case Created, JournalKept, Gone:
		default:
			continue
		}
		if o.UID == "" {
			continue
		}
		f.known[objectKey(o.UID)] = struct{}{}
		if k := u.Plan.Kind(i); k.Kind == "StatefulSet" && plan.GroupOf(k.APIVersion) == "apps" {
			for _, base := range claims(u.Plan.Body(i), u.Plan.Name(i)) {
				f.known[claimKey(u.Plan.Namespace(i), base)] = struct{}{}
			}
		}
	}
	return f
}

// claims returns the names of the claims of a stateful set, without their numbers.
func claims(body []byte, name string) (all []string) {
	var set struct {
		Spec struct {
			VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
		}
	}
	if json.Unmarshal(body, &set) != nil {
		return nil
	}
	for _, c := range set.Spec.VolumeClaimTemplates {
		all = append(all, c.Metadata.Name+"-"+name)
	}
	return all
}

// blind records a kind that cannot be listed in a namespace, or in any namespace if namespace is
// "".
func (f *found) blind(namespace, what, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.spaces {
		if namespace == "" || namespace == name {
			first(f.unseen, name, "unknown whether another client has put "+what+" into it: "+why)
		}
	}
}

// see classifies an object in the run's namespaces as the run's, a controller's, another client's,
// or pending.
func (f *found) see(k plan.Kind, m item) {
	if f.spaces[m.Namespace] == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.APIVersion == "v1" && k.Resource == "services" {
		f.known[serviceKey(m.Namespace, m.Name)] = struct{}{}
	}
	if k.APIVersion == "v1" && k.Resource == "serviceaccounts" {
		for _, name := range m.secrets {
			f.known[listedKey(m.Namespace, m.Name, name)] = struct{}{}
		}
	}
	self := objectKey(m.UID)
	if _, ours := f.known[self]; ours && m.UID != "" {
		return
	}
	if f.given(k, m) {
		f.known[self] = struct{}{}
		return
	}
	p := pending{resource: k.Resource, namespace: m.Namespace, name: m.Name, any: of(k, m), going: m.DeletionTimestamp != "", labelled: m.Labels[plan.RunLabel] == f.run}
	for _, o := range m.OwnerReferences {
		p.owners = append(p.owners, owner{objectKey(o.UID), f.kinds[plan.GroupOf(o.APIVersion)+"/"+o.Kind]})
	}
	switch {
	case len(p.any) > 0 || len(p.owners) > 0:
	case p.going: // deletion has begun, so it cannot be kept
		return
	default:
		f.hold(p)
		return
	}
	if p.gives = []key{self}; m.UID == "" {
		p.gives = nil
	}
	if account, is := plan.Account(m.Annotations); is && m.Annotations[tokenNote] != "" && k.Resource == "secrets" {
		p.gives = append(p.gives, listedKey(m.Namespace, account, m.Annotations[tokenNote]))
	}
	if f.pending = append(f.pending, p); len(f.pending) >= f.settle {
		f.settleAll()
	}
}

// given reports whether a controller creates an object like this in every namespace.
func (f *found) given(k plan.Kind, m item) bool {
	if k.Resource == versions {
		return m.Labels[copiedLabel] != ""
	}
	return plan.ToAll(k.Resource, m.Name, nil) && (f.openShift || !plan.ByOpenShift(k.Resource, m.Name))
}

// of returns the keys of the objects for which a controller may have created m without an owner
// reference, such as the Service of an Endpoints object.
func of(k plan.Kind, m item) []key {
	switch k.Resource {
	case "endpoints":
		return []key{serviceKey(m.Namespace, m.Name)}
	case "endpointslices":
		if name := m.Labels[serviceLabel]; name != "" {
			return []key{serviceKey(m.Namespace, name)}
		}
	case "secrets":
		if account, is := plan.Account(m.Annotations); is {
			return []key{listedKey(m.Namespace, account, m.Name)}
		}
	case "persistentvolumeclaims":
		if at := strings.LastIndexByte(m.Name, '-'); at > 0 && strings.Trim(m.Name[at+1:], "0123456789") == "" {
			return []key{claimKey(m.Namespace, m.Name[:at])}
		}
	}
	return nil
}

// settleAll resolves pending objects whose owners are known by now.
func (f *found) settleAll() {
	for n := -1; n != len(f.pending); {
		n = len(f.pending)
		f.pending = slices.DeleteFunc(f.pending, f.accept)
	}
	f.settle = max(settleAt, 2*len(f.pending))
}

func (f *found) accept(p pending) bool {
	known := func(k key) bool { _, is := f.known[k]; return is }
	strange := func(o owner) bool { return !known(o.key) }
	if !slices.ContainsFunc(p.any, known) && (len(p.owners) == 0 || slices.ContainsFunc(p.owners, strange)) {
		return false
	}
	for _, k := range p.gives {
		f.known[k] = struct{}{}
	}
	return true
}

// again returns the lists that may contain missing owners, for namespaces that no other object
// keeps.
func (f *found) again() []query {
	f.settleAll()
	asked := map[query]bool{}
	for _, p := range f.pending {
		if p.going || f.holds[p.namespace] != "" || f.unseen[p.namespace] != "" {
			continue
		}
		in := p.namespace
		if len(f.spaces) > perSpace {
			in = ""
		}
		for _, o := range p.owners {
			if _, met := f.known[o.key]; !met && o.kind != nil {
				asked[query{*o.kind, in}] = true
			}
		}
	}
	all := make([]query, 0, len(asked))
	for q := range asked {
		all = append(all, q)
	}
	return all
}

// orphans reports whether labelled objects remain whose owners are gone; the garbage collector will
// remove them.
func (f *found) orphans() bool {
	f.settleAll()
	there := map[key]bool{}
	for _, p := range f.pending {
		for _, k := range p.gives {
			there[k] = true
		}
	}
	return slices.ContainsFunc(f.pending, func(p pending) bool {
		return p.labelled && !p.going && len(p.owners) > 0 && !slices.ContainsFunc(p.owners, func(o owner) bool {
			_, known := f.known[o.key]
			return known || there[o.key]
		})
	})
}

// verdicts returns the namespaces to keep with the reasons. A visible object takes precedence over
// invisible parts.
func (f *found) verdicts() map[string]string {
	f.settleAll()
	sure := make(map[string]bool, len(f.holds))
	for name := range f.holds {
		sure[name] = true
	}
	for _, p := range f.pending {
		// An object owned by another client's object need not be named: its owner is in the same
		// namespace.
		if !p.going && !sure[p.namespace] {
			f.hold(p)
		}
	}
	for name, why := range f.holds {
		f.unseen[name] = why
	}
	return f.unseen
}

// hold records an object that another client has put into a namespace of the run.
func (f *found) hold(p pending) {
	first(f.holds, p.namespace, "it holds "+p.resource+"/"+p.name+", not created by this run")
}

func first(of map[string]string, name, text string) {
	if was := of[name]; was == "" || text < was {
		of[name] = text
	}
}
