package cpu

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

const (
	groupPrefix  = "group."
	cgroupPrefix = "cgroup."
)

// rules are a unit's options about tasks.
type rules struct {
	whitelist, blacklist *regexp.Regexp // of names; nil: all, none
	cgroups              *regexp.Regexp // of control groups left alone; nil: none
	kthreads             bool
	groups               []group // in order: the last that matches holds
}

// group is one group.NAME option.
type group struct {
	option profile.Option
	order  float64
	policy string // as in host.Policy; "" leaves it
	// priority is of fifo and rr, or of whatever of the two a task has.
	priority int
	affinity unit.CPUSet // empty: not given
	cgroup   string      // instead of an affinity
	match    *regexp.Regexp
}

// readRules reads what a unit says about tasks. A group that is not valid is
// left out: it is rejected by itself. An error names an option that says which
// tasks are meant and is not valid: no task can be touched without it.
func readRules(u profile.Unit) (rules, error) {
	rs := rules{kthreads: true}
	var wrong error
	for _, o := range u.Options {
		var err error
		switch {
		case o.Name == "ps_whitelist":
			rs.whitelist, err = anyOf(o.Value)
		case o.Name == "ps_blacklist":
			rs.blacklist, err = anyOf(o.Value)
		case o.Name == "cgroup_ps_blacklist":
			rs.cgroups, err = anyOf(o.Value)
		case o.Name == "kthread_process":
			rs.kthreads, err = truth(o.Value)
		case isGroup(o):
			if g, err := parseGroup(o); err == nil {
				rs.groups = append(rs.groups, g)
			}
		}
		if err != nil {
			wrong = cmp.Or(wrong, plugin.Invalid("%s is not valid, and says which tasks are left alone", o.Name))
		}
	}
	slices.SortStableFunc(rs.groups, func(a, b group) int {
		switch {
		case a.order < b.order:
			return -1
		case a.order > b.order:
			return 1
		}
		return 0
	})
	return rs, wrong
}

// isGroup is true for group.NAME options with a rule; an empty one takes an
// inherited rule away.
func isGroup(o profile.Option) bool {
	return strings.HasPrefix(o.Name, groupPrefix) && len(o.Deferred) == 0 && strings.TrimSpace(o.Value) != ""
}

// checkPattern and checkTruth are for options that readRules reads.
func checkPattern(o profile.Option) error {
	if _, err := anyOf(o.Value); err != nil {
		return plugin.Invalid("%v", err)
	}
	return nil
}

func checkTruth(o profile.Option) error {
	if _, err := truth(o.Value); err != nil {
		return plugin.Invalid("%v", err)
	}
	return nil
}

func truth(value string) (bool, error) {
	t, ok := plugin.Truth(value)
	if !ok {
		return false, fmt.Errorf("%q: want 1 or 0", value)
	}
	return t, nil
}

// anyOf joins regular expressions that semicolons separate; "\;" is one that
// does not.
func anyOf(value string) (*regexp.Regexp, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil, nil
	}
	var parts []string
	start := 0
	for i := 0; i <= len(value); i++ {
		if i == len(value) || value[i] == ';' && (i == 0 || value[i-1] != '\\') {
			parts = append(parts, "(?:"+strings.ReplaceAll(value[start:i], `\;`, ";")+")")
			start = i + 1
		}
	}
	return compile(strings.Join(parts, "|"))
}

func compile(expr string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("%w (Python's look-ahead and back-references are not known here)", err)
	}
	return re, nil
}

// policyLetters are those of chrt(1) and TuneD.
var policyLetters = map[string]string{"f": "fifo", "b": "batch", "r": "rr", "o": "other", "i": "idle", "*": ""}

func parseGroup(o profile.Option) (group, error) {
	g := group{option: o}
	f := strings.SplitN(o.Value, ":", 5)
	if len(f) < 5 {
		return g, fmt.Errorf("%q: want order:policy:priority:affinity:regex", o.Value)
	}
	for i := range f[:4] {
		f[i] = strings.TrimSpace(f[i])
	}
	var err error
	if g.order, err = strconv.ParseFloat(f[0], 64); err != nil {
		return g, fmt.Errorf("order %q: want a number", f[0])
	}
	policy, ok := policyLetters[f[1]]
	if !ok {
		return g, fmt.Errorf("policy %q: want f, b, r, o, i or *", f[1])
	}
	g.policy = policy
	if g.priority, err = strconv.Atoi(f[2]); err != nil && !(f[2] == "*" && policy == "") {
		return g, fmt.Errorf("priority %q: want a whole number", f[2])
	}
	switch realtime := policy == "fifo" || policy == "rr"; {
	case realtime && (g.priority < 1 || g.priority > 99):
		return g, fmt.Errorf("priority %d: %s takes 1 to 99", g.priority, policy)
	case !realtime && policy != "" && g.priority != 0:
		return g, fmt.Errorf("priority %d: %s has none but 0", g.priority, policy)
	case policy == "" && (g.priority < 0 || g.priority > 99):
		return g, fmt.Errorf("priority %d: want 0 to 99", g.priority)
	}
	switch name, isCgroup := strings.CutPrefix(f[3], cgroupPrefix); {
	case f[3] == "*":
	case isCgroup && name != "":
		if g.cgroup, err = cgroupPath(name); err != nil {
			return g, err
		}
	default:
		if g.affinity, err = unit.ParseCPUMask(f[3]); err != nil || g.affinity.IsEmpty() {
			return g, fmt.Errorf("affinity %q: want a hexadecimal mask, cgroup.NAME or *", f[3])
		}
	}
	g.match, err = compile(f[4])
	return g, err
}

// groupOf is the rule that holds for a task.
func (rs *rules) groupOf(t host.Task) *group {
	if t.Kernel && !rs.kthreads || t.Zombie {
		return nil
	}
	for i := len(rs.groups) - 1; i >= 0; i-- {
		if rs.groups[i].match.MatchString(t.Cmdline) {
			return &rs.groups[i]
		}
	}
	return nil
}

// isolates is true for tasks that isolated_cores moves.
func (rs *rules) isolates(h *host.Host, t host.Task) bool {
	if t.Zombie || t.Bound || t.Kernel && !rs.kthreads {
		return false
	}
	matches := func(re *regexp.Regexp) bool {
		return re.MatchString(t.Comm) || t.Kernel && re.MatchString("["+t.Comm+"]")
	}
	if rs.whitelist != nil && !matches(rs.whitelist) || rs.blacklist != nil && matches(rs.blacklist) {
		return false
	}
	if g := rs.groupOf(t); g != nil && (g.cgroup != "" || !g.affinity.IsEmpty()) {
		return false // the group says where it runs
	}
	return !rs.leftAlone(h, t)
}

// leftAlone is true for tasks in control groups whose affinity nobody is to
// touch.
func (rs *rules) leftAlone(h *host.Host, t host.Task) bool {
	if rs.cgroups == nil {
		return false
	}
	text, _ := plugin.Attribute(h, "/proc/"+strconv.Itoa(t.TID)+"/cgroup")
	return rs.cgroups.MatchString(strings.ReplaceAll(text, "\n", ","))
}
