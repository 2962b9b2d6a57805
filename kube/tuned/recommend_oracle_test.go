package tuned

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// answer is what two evaluations have to agree on.
type answer struct {
	State    State
	Profile  string
	Object   string
	Index    int
	By       By
	Debug    bool
	Deferred DeferMode
	Ties     int
	Ignored  int      // rules that asked for pods in vain
	Profiles []string // that the node needs, where it is decided
	Invalid  []string // objects
}

func answerOf(d Decision, objects []Object) answer {
	a := answer{State: d.State, Profile: d.Profile, Debug: d.Debug, Deferred: d.Deferred, Profiles: d.Profiles}
	if d.Rule != nil {
		a.Object, a.Index, a.By = d.Rule.Object, d.Rule.Index, d.Rule.By
	}
	for _, n := range d.Notes {
		switch n.Reason {
		case Tie:
			a.Ties++
		case PodLabelsIgnored:
			a.Ignored++
		}
	}
	for _, o := range objects {
		if !o.Valid {
			a.Invalid = append(a.Invalid, o.Name)
		}
	}
	return a
}

func (c *recommendCluster) String() string {
	b, _ := json.MarshalIndent(map[string]any{"objects": c.objects, "pools": c.pools, "node": c.node, "pods": c.options.PodLabels}, "", " ")
	return string(b)
}

// search evaluates a cluster another way than Decide: it writes out every way
// through the match items and looks whether all on it are facts of the node, takes
// the smallest of the rules that hold instead of the first of sorted ones, and
// finds what a profile needs by repeating until nothing is added.
func (c *recommendCluster) search() answer {
	a := answer{State: NoMatch, Invalid: c.invalid()}
	if c.node.Labels["kubernetes.io/os"] == "windows" {
		a.State = NotLinux
		return a
	}
	type candidate struct {
		rank         *big.Rat // the priority; none is above all others
		object       *Tuned
		index        int
		by           By
		askedForPods bool
	}
	var candidates []candidate
	for _, o := range c.objects {
		for i, r := range o.Spec.Recommend {
			rank := big.NewRat(1<<40, 1)
			if r.Priority != nil {
				rank = new(big.Rat).SetUint64(*r.Priority)
			}
			by, asked := c.why(r)
			candidates = append(candidates, candidate{rank, o, i, by, asked})
		}
	}
	before := func(x, y candidate) bool {
		if n := x.rank.Cmp(y.rank); n != 0 {
			return n < 0
		}
		if x.object != y.object {
			return x.object.Name < y.object.Name
		}
		return x.index < y.index
	}
	var best *candidate
	for i := range candidates {
		if x := &candidates[i]; x.by != "" && (best == nil || before(*x, *best)) {
			best = x
		}
	}
	for _, x := range candidates {
		if x.by == "" && x.askedForPods && (best == nil || before(x, *best)) {
			a.Ignored++
		}
	}
	if best == nil {
		return a
	}
	r := best.object.Spec.Recommend[best.index]
	a.State, a.Profile, a.Object, a.Index, a.By = Decided, r.Profile, best.object.Name, best.index, best.by
	a.Debug, a.Deferred = r.Operand.Debug, deferredOf(best.object)
	for _, x := range candidates {
		other := x.object.Spec.Recommend[x.index]
		if x.by == "" || x.rank.Cmp(best.rank) != 0 || x.object == best.object && x.index == best.index {
			continue
		}
		if other.Profile != r.Profile || other.Operand.Debug != r.Operand.Debug || deferredOf(x.object) != a.Deferred {
			a.Ties++
		}
	}
	needed, ok := c.needed(r.Profile)
	if a.Profiles = needed; !ok {
		a.State, a.Profiles = Held, nil
	}
	return a
}

func deferredOf(o *Tuned) DeferMode {
	for _, mode := range []DeferMode{"always", "update"} {
		if o.Annotations["tuned.openshift.io/deferred"] == string(mode) {
			return mode
		}
	}
	return "never"
}

// ways are all ways from the outermost items to the innermost.
func ways(all []TunedMatch) (out [][]TunedMatch) {
	for _, m := range all {
		if len(m.Match) == 0 {
			out = append(out, []TunedMatch{m})
		}
		for _, way := range ways(m.Match) {
			out = append(out, append([]TunedMatch{m}, way...))
		}
	}
	return out
}

// why says what of a rule holds, and whether a label of pods was asked for in
// vain on the way there.
func (c *recommendCluster) why(r TunedRecommend) (by By, asked bool) {
	facts := map[string]bool{}
	learn := func(whose string, labels map[string]string) {
		for name, value := range labels {
			facts[whose+" "+name] = true
			facts[whose+" "+name+"="+value] = true
		}
	}
	learn("node", c.node.Labels)
	if c.options.PodLabels {
		for _, p := range c.node.Pods {
			learn("pod", p.Labels)
		}
	}
	fact := func(m TunedMatch) bool {
		whose := m.Type
		if whose == "" {
			whose = "node"
		}
		text := whose + " " + m.Label
		if m.Value != nil {
			text += "=" + *m.Value
		}
		return m.Label != "" && facts[text]
	}
	found := false
	for _, way := range ways(r.Match) {
		holds := true
		for _, m := range way {
			if holds && m.Type == "pod" && m.Label != "" && !c.options.PodLabels {
				asked = true
			}
			holds = holds && fact(m)
		}
		found = found || holds
	}
	switch {
	case found:
		return ByMatch, false
	case r.Match == nil && r.MachineConfigLabels == nil, r.Match != nil && len(r.Match) == 0:
		return ByCatchAll, false
	case r.MachineConfigLabels != nil && c.poolTakes(r.MachineConfigLabels):
		return ByLabels, false
	}
	return "", asked
}

// selects reads the selectors of this test: one label, of which a few values are
// right, or any.
func selects(p Pool, config bool, labels map[string]string) bool {
	s := p.NodeSelector
	if config {
		s = p.MachineConfigSelector
	}
	if s == nil || len(s.MatchExpressions) == 0 {
		return false
	}
	e := s.MatchExpressions[0]
	value, there := labels[e.Key]
	return there && (len(e.Values) == 0 || slices.Contains(e.Values, value))
}

// poolTakes writes out which pools count for each mixture of the pools that a node
// is in.
func (c *recommendCluster) poolTakes(labels map[string]string) bool {
	in := ""
	for _, name := range []string{"master", "worker", "own", "other"} {
		for _, p := range c.pools {
			if p.Name == name && selects(p, false, c.node.Labels) {
				in += " " + name
			}
		}
	}
	count := map[string]string{
		"": "", " master": "master", " worker": "worker", " master worker": "master", " own": "own", " other": "other",
		" master own": "master", " master other": "master", " worker own": "own worker", " worker other": "other worker",
		" master worker own": "master worker", " master worker other": "master worker",
		" own other": "", " master own other": "", " worker own other": "", " master worker own other": "",
	}
	names, known := count[in]
	if !known {
		panic(in)
	}
	for _, p := range c.pools {
		if slices.Contains(strings.Fields(names), p.Name) && selects(p, true, labels) {
			return true
		}
	}
	return false
}

// copies are the texts of a name, those of the object default alone if it has one.
func (c *recommendCluster) copies(name string) (texts []string) {
	for _, own := range []bool{true, false} {
		for _, o := range c.objects {
			for _, p := range o.Spec.Profile {
				if p.Name == name && (!own || o.Name == "default") {
					texts = append(texts, p.Data)
				}
			}
		}
		if texts != nil {
			return texts
		}
	}
	return nil
}

// needed are the objects' profiles that a profile needs, and whether all can be
// given.
func (c *recommendCluster) needed(root string) (names []string, ok bool) {
	if root == "" || root == ".." || strings.Contains(root, " ") {
		return nil, false
	}
	// What a text names; the first mention of a name is the object's profile, the
	// second the one below it.
	mentions := func(text string) []string {
		_, line, found := strings.Cut(text, "include=")
		if !found {
			return nil
		}
		line, _, _ = strings.Cut(line, "\n")
		if line == "${f:virt_check:p5:b2}" {
			return []string{"p5", "b2"}
		}
		return strings.Split(strings.ReplaceAll(line, "-", ""), ",")
	}
	read := map[string]bool{}
	for {
		count := map[string]int{root: 1}
		for file := range read {
			name, text := file[2:], ""
			if file[0] == 'o' {
				text = c.copies(name)[0]
			} else {
				text = string(builtins[name+"/tuned.conf"].Data)
			}
			for _, m := range mentions(text) {
				count[m]++
			}
		}
		before := len(read)
		for name, n := range count {
			if c.copies(name) != nil {
				read["o "+name] = true
				n--
			}
			if n > 0 && builtins[name+"/tuned.conf"] != nil {
				read["b "+name] = true
			}
		}
		if len(read) == before {
			break
		}
	}
	ok = true
	for file := range read {
		if file[0] != 'o' {
			continue
		}
		texts := c.copies(file[2:])
		names = append(names, file[2:])
		ok = ok && !slices.Contains(badTexts, texts[0]) && !slices.ContainsFunc(texts, func(t string) bool { return t != texts[0] })
	}
	slices.Sort(names)
	return names, ok
}

// invalid are the objects with a mistake.
func (c *recommendCluster) invalid() (names []string) {
	for _, o := range c.objects {
		wrong := false
		for _, p := range o.Spec.Profile {
			texts := c.copies(p.Name)
			if o.Name != "default" { // its own text has to be that of all
				texts = append(texts, p.Data)
			}
			wrong = wrong || p.Name == "." || slices.Contains(badTexts, p.Data) || slices.ContainsFunc(texts, func(t string) bool { return t != texts[0] }) && c.concerns(o, p) || p.Data == texts[0] && c.circles(p.Name)
		}
		for _, r := range o.Spec.Recommend {
			takers := 0
			for _, p := range c.pools {
				if len(r.MachineConfigLabels) > 0 && selects(p, true, r.MachineConfigLabels) {
					takers++
				}
			}
			wrong = wrong || takers > 1 || r.Profile == "" || r.Profile == ".." || strings.Contains(r.Profile, " ")
			for _, way := range ways(r.Match) {
				for _, m := range way {
					wrong = wrong || m.Label == "" || m.Type == "Pod" || m.Type == "pod" && !c.options.PodLabels
				}
			}
		}
		if wrong {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// circles reports whether a profile that is not built in is reached again from what it
// includes on every node, other than by naming itself.
func (c *recommendCluster) circles(name string) bool {
	reached := map[string]bool{}
	for round, from := 0, []string{name}; round < 10; round++ {
		var next []string
		for _, by := range from {
			texts := slices.Compact(c.copies(by))
			if len(texts) > 1 {
				continue
			}
			for _, text := range texts {
				_, line, _ := strings.Cut(text, "include=")
				line, _, _ = strings.Cut(line, "\n")
				for _, m := range strings.Split(strings.ReplaceAll(line, "-", ""), ",") {
					if m != by && !strings.HasPrefix(line, "$") && builtins[m+"/tuned.conf"] == nil {
						next = append(next, m)
						reached[m] = true
					}
				}
			}
		}
		slices.Sort(next)
		from = slices.Compact(next)
	}
	return reached[name]
}

// concerns reports whether a conflict about a name is an object's: where the object
// default has the name, only those that differ from it are wrong.
func (c *recommendCluster) concerns(o *Tuned, p TunedProfile) bool {
	for _, d := range c.objects {
		for _, own := range d.Spec.Profile {
			if d.Name == "default" && own.Name == p.Name {
				return o.Name == "default" || p.Data != own.Data
			}
		}
	}
	return true
}
