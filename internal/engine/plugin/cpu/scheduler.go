// scheduler is the plug-in for the kernel's CPU scheduler: its variables, isolated CPUs, and
// policy and affinity of task groups.

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

// Scheduler is the plug-in for [scheduler] sections.
var Scheduler = plugin.Plugin{
	Name:    "scheduler",
	Doc:     "the kernel's CPU scheduler: its variables, isolated CPUs, and policy and affinity of tasks",
	Options: slices.Concat(steering, isolation, variables()),
	Free:    free,
}

// steering lists the options that only control other options.
var steering = []plugin.Option{
	{Name: "cgroup_mount_point", Control: true, Default: defaultMount,
		Doc: "where the cpuset controller of control groups version 1 is mounted"},
	{Name: "cgroup_mount_point_init", Control: true, Words: plugin.YesWords, Default: "0",
		Doc: "1 mounts the cpuset controller at cgroup_mount_point, and creates groups as cgroup_groups_init does"},
	{Name: "cgroup_groups_init", Control: true, Words: plugin.YesWords, Default: "1",
		Doc: "1 creates the control groups that this section names, 0 uses existing ones"},
	{Name: "cgroup_for_isolated_cores", Control: true,
		Doc: "name of a control group that confines tasks, instead of an affinity; with version 1 tasks are moved to this group (dots separate levels), with version 2 systemd's slices get AllowedCPUs= instead"},
	{Name: "cgroup_ps_blacklist", Control: true, Check: checkPattern,
		Doc: "regular expressions, separated by semicolons; tasks are left alone if their control groups (the lines of /proc/PID/cgroup, joined by commas) match one"},
	{Name: "ps_whitelist", Control: true, Check: checkPattern, Default: ".*",
		Doc: "regular expressions, separated by semicolons; isolated_cores moves only tasks whose name matches one (the name of a kernel thread also in brackets)"},
	{Name: "ps_blacklist", Control: true, Check: checkPattern,
		Doc: "regular expressions, separated by semicolons; isolated_cores does not move tasks whose name matches one (the name of a kernel thread also in brackets)"},
	{Name: "kthread_process", Control: true, Check: checkTruth, Default: "1",
		Doc: "0 does not move kernel threads"},
	{Name: "irq_process", Control: true, Default: "1",
		Doc: "0 does not move interrupts from isolated CPUs"},
	{Name: "default_irq_smp_affinity", Control: true, Default: "calc",
		Doc: "CPUs of new interrupts: calc excludes isolated CPUs, ignore changes nothing, a CPU list is written as given"},
	{Name: "perf_mmap_pages", Control: true,
		Doc: "no effect: fettle gets new tasks from the kernel's process events, not from a perf buffer"},
	{Name: "perf_process_fork", Control: true, Words: plugin.YesWords, Default: "0",
		Doc: "1 checks each task also when it starts, not only when it runs another program or changes its name"},
	{Name: "runtime", Control: true, Words: plugin.NoWords, Default: "1",
		Doc: "0 leaves new tasks alone; otherwise fettle's daemon gets them from the kernel's process events"},
}

var isolation = []plugin.Option{
	{Name: "isolated_cores", Plan: planIsolated,
		Doc: "CPU list from which ordinary tasks and interrupts are moved away, with an affinity for each task; programs can still request these CPUs"},
}

// free returns the option for a name such as group.NAME or cgroup.NAME, and false for other names.
func free(name string) (plugin.Option, bool) {
	switch {
	case strings.HasPrefix(name, groupPrefix) && name != groupPrefix:
		return plugin.Option{Name: name, Plan: planGroup,
			Doc: "order:policy:priority:affinity:regex for tasks whose command line matches; of several matches, the last in order applies; policy f, b, r, o, i or *, affinity a hexadecimal mask, cgroup.NAME or *"}, true
	case strings.HasPrefix(name, cgroupPrefix) && name != cgroupPrefix:
		return plugin.Option{Name: name, Plan: planCgroup,
			Doc: "CPU list of a control group (version 1); dots separate levels"}, true
	}
	return plugin.Option{}, false
}

const (
	groupPrefix  = "group."
	cgroupPrefix = "cgroup."
)

// rules are a unit's options about tasks.
type rules struct {
	whitelist, blacklist *regexp.Regexp // match task names; nil matches all names, or none
	cgroups              *regexp.Regexp // control groups whose tasks are not changed; nil: none
	kthreads             bool
	groups               []group // in order; the last match applies
}

// group is one group.NAME option.
type group struct {
	option profile.Option
	order  float64
	policy string // as in host.Policy; "" means no change
	// priority is for the policies fifo and rr; without a policy, for the one that the task has.
	priority int
	affinity unit.CPUSet // empty: not set
	cgroup   string      // control group to use instead of an affinity
	match    *regexp.Regexp
}

// readRules parses a unit's options about tasks. It skips an invalid group, which is rejected
// separately. It returns an error for an invalid option that selects tasks: no task can be changed
// without it.
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
			wrong = cmp.Or(wrong, plugin.Invalid("invalid %s, which selects the tasks to leave alone", o.Name))
		}
	}
	slices.SortStableFunc(rs.groups, func(a, b group) int { return cmp.Compare(a.order, b.order) })
	return rs, wrong
}

// isGroup reports whether an option is a group.NAME with a rule. An empty value removes an
// inherited rule.
func isGroup(o profile.Option) bool {
	return strings.HasPrefix(o.Name, groupPrefix) && len(o.Deferred) == 0 && strings.TrimSpace(o.Value) != ""
}

// checkPattern returns an error for an invalid pattern, checkTruth for an invalid boolean, in
// options that readRules parses.
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

// anyOf joins regular expressions separated by semicolons into one; "\;" is a literal semicolon.
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
		return nil, fmt.Errorf("%w (Python's look-ahead and back-references are not supported)", err)
	}
	return re, nil
}

// policyLetters maps the policy letters of chrt(1) and TuneD to names.
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
		return g, fmt.Errorf("priority %d: %s allows only 0", g.priority, policy)
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

// groupOf returns the group rule for a task, or nil if none matches.
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

// isolates reports whether isolated_cores moves a task off the isolated CPUs.
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
		return false // the group rule sets its CPUs
	}
	return !rs.leftAlone(h, t)
}

// leftAlone reports whether a task is in a control group whose affinities must not be changed.
func (rs *rules) leftAlone(h *host.Host, t host.Task) bool {
	if rs.cgroups == nil {
		return false
	}
	text, _ := plugin.Attribute(h, "/proc/"+strconv.Itoa(t.TID)+"/cgroup")
	return rs.cgroups.MatchString(strings.ReplaceAll(text, "\n", ","))
}
