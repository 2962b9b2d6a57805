package agent

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/tuned"
	"fettle.dev/fettle/profiles"
)

// Dir is the agent's own directory on a node, with the cluster's profiles and the agent's memory.
// The journal is in journal.DefaultDir, where fettle on the node can show and undo it.
const Dir = "/var/lib/fettle-agent"

// profilesDir holds the texts of the Profile object, as NAME/tuned.conf.
const profilesDir = Dir + "/profiles"

// patience limits the wait for a transaction of another process.
var patience = 10 * time.Second

// Node is the machine that an agent tunes. Its methods are not safe for concurrent use.
type Node struct {
	// Name is the name of the Node object and the Profile object.
	Name string
	// Root is the path at which the node's root is mounted.
	Root string
	// Allow lists what profiles may do beyond settings, such as running programs.
	Allow tuned.Allow
	// Tell receives warnings as they occur; it may be nil.
	Tell func(text string)
	// At is passed to the engine, for tests.
	At func(point string)

	kinds    setting.Kinds // kinds hold descriptors, so one table serves the whole life of the agent
	held     map[setting.Setting]holding
	prepared prepared
	told     map[string]bool
	recalled recalled
}

// agentMachine is the node opened for one Look, with its present configuration, keep.d and sysctl
// files.
type agentMachine struct {
	*Node
	host    *host.Host
	engine  *tune.Engine
	loader  profile.Loader
	sysctls *override.Claims
	rule    string // the operator's reason for its decision
}

func (n *Node) tell(format string, args ...any) {
	if n.Tell != nil {
		n.Tell(fmt.Sprintf(format, args...))
	}
}

// tellOnce logs a text only the first time, because every Look repeats it.
func (n *Node) tellOnce(text string) {
	if n.told == nil {
		n.told = map[string]bool{}
	}
	if !n.told[text] {
		n.told[text] = true
		n.tell("%s", text)
	}
}

// open opens the node for one Look.
func (n *Node) open(ctx context.Context) (*agentMachine, error) {
	h := host.Node(n.Root)
	if n.kinds == nil {
		n.kinds = table.Kinds(h)
	}
	state, err := stateDir(h, n.Root, journal.DefaultDir)
	if err != nil {
		return nil, err
	}
	m := &agentMachine{Node: n, host: h}
	opened, err := tune.Open(ctx, &tune.Engine{
		Host: h, Kinds: n.kinds, Plugins: guarded(table.All, n.Allow), StateDir: state, User: "agent of node " + n.Name, Wait: patience, At: n.At, Tell: n.Tell,
	}, profiles.FS, []string{profilesDir}, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	m.engine, m.loader = opened.Engine, opened.Loader
	m.loader.Refuse = refuse(n.Allow)
	m.engine.Main.DynamicTuning = false // the agent does not follow the load; only a machine's own daemon does
	m.engine.Keep = append(m.engine.Keep, m.ofKubelet(ctx)...)
	m.engine.Overridden = func(s setting.Setting) (tune.Override, bool) { return m.overridden(ctx, s) }
	return m, nil
}

// reapplyOf returns a Profile object's option whether the administrator's sysctl files override the
// profile: "true", "false", or "" if unset.
func reapplyOf(p *tuned.Profile) string {
	if p == nil || p.Spec.Config.TuneDConfig.ReapplySysctl == nil {
		return ""
	}
	return strconv.FormatBool(*p.Spec.Config.TuneDConfig.ReapplySysctl)
}

// reapply applies the result of reapplyOf; "" keeps the node's own configuration.
func (m *agentMachine) reapply(word string) {
	if on, err := strconv.ParseBool(word); err == nil {
		m.engine.Main.ReapplySysctl = on
	}
}

// stateDir returns the path by which this process reaches a directory of the node, whose root is
// mounted at root. Symbolic links resolve as on the node.
func stateDir(h *host.Host, root, dir string) (string, error) {
	above, err := h.Files.Resolve(path.Dir(dir))
	if err != nil {
		return "", fmt.Errorf("cannot read the node's root file system at %s: %w; mount it there, or name its directory with --root", root, err)
	}
	return filepath.Join(root, above, path.Base(dir)), nil
}

// ofKubelet returns keep entries for the sysctls that a kubelet sets at every start, even if the
// profile requests the same values. An undo would otherwise restore the values from before the
// kubelet.
func (m *agentMachine) ofKubelet(ctx context.Context) tune.Keep {
	found, _ := override.Read(ctx, m.host, m.kinds, override.Kubelet)
	var keep tune.Keep
	for _, name := range override.KubeletSysctls() {
		s := setting.Setting{Kind: "sysctl", Name: name}
		k := tune.KeepEntry{Pattern: s.String(), Reason: kubeletOwns, File: "kubelet"}
		if all := found.For(s); len(all) > 0 {
			k.File, k.Line = all[len(all)-1].File, all[len(all)-1].Line
		}
		keep = append(keep, k)
	}
	return keep
}

const kubeletOwns = "owned by the kubelet, which sets it at every start"

// overridden returns a setting's value in the administrator's sysctl files. It reads the files on
// first use.
func (m *agentMachine) overridden(ctx context.Context, s setting.Setting) (tune.Override, bool) {
	main := m.engine.Main
	if s.Kind != "sysctl" || !main.ReapplySysctl {
		return tune.Override{}, false
	}
	for _, pattern := range main.ReapplySysctlExclude {
		if profile.Fnmatch(pattern, s.Name) {
			return tune.Override{}, false
		}
	}
	if m.sysctls == nil {
		var problems []override.Problem
		m.sysctls, problems = override.Read(ctx, m.host, m.kinds, override.Sysctl)
		for _, p := range problems {
			m.tellOnce(p.String())
		}
	}
	c, ok := m.sysctls.Administrator(s)
	if !ok {
		return tune.Override{}, false
	}
	return tune.Override{Setting: c.Setting, Value: c.Value, File: c.File, Line: c.Line, Text: c.Text}, true
}

// plansFor reports whether a profile sets a value that a partial tuner manages. It returns false
// for a profile that cannot be planned; planning it later reports the error.
func (m *agentMachine) plansFor(ctx context.Context, t override.Tuner, name string) bool {
	p, err := m.load(ctx, name)
	if err != nil {
		return false
	}
	plan, err := m.engine.PlanProfile(ctx, p, &journal.State{})
	return err == nil && slices.ContainsFunc(plan.Steps, func(st tune.Step) bool {
		return st.Action != tune.None && t.Conflicts(m.kinds.KernelFiles(st.Setting))
	})
}

// otherTuner returns a program on the node that would overwrite the profile's values, or
// "".
func (m *agentMachine) otherTuner(ctx context.Context, profile string) string {
	all, _ := override.Tuners(ctx, m.host) // if services cannot be listed, none runs
	for _, t := range all {
		if t.Partial() && !m.plansFor(ctx, t, profile) {
			continue
		}
		if t.Exclusive && t.InForce() {
			return fmt.Sprintf("%s already tunes this node, and only one tuner may run: %s", t.Name, t.HandOver)
		}
	}
	return ""
}

// inForce returns the selection in force according to the journal, or nil.
func inForce(s *journal.State) (*InForce, *tune.Selection, error) {
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil || sel == nil {
		return nil, nil, err
	}
	return &InForce{Profile: strings.Join(sel.Names(), " "), Origin: sel.Origin, Boot: t.BootID}, sel, nil
}

// holding is a value that an open descriptor of this process keeps, such as a CPU latency limit. It
// is not in the journal. It ends with the process, and the next agent sets it again.
type holding struct{ before, want setting.Value }

// hold acquires the values that a profile needs held, and releases others. e is the engine of a
// long-running process.
func (m *agentMachine) hold(ctx context.Context, e *tune.Engine, p *profile.Profile, s *journal.State) error {
	plan, err := e.PlanProfile(ctx, p, s)
	if err != nil {
		return err
	}
	wanted := map[setting.Setting]tune.Step{}
	for _, st := range plan.Steps {
		if st.Lifetime == setting.Held && (st.Action == tune.Write || st.Action == tune.Same) {
			wanted[st.Setting] = st
		}
	}
	errs := []error{m.letGo(ctx, wanted)}
	for s, st := range wanted {
		old, ours := m.held[s]
		if ours && m.kinds.Equal(s, old.want, st.Want) {
			continue
		}
		if !ours {
			old.before = st.Before
		}
		if err := m.kinds.Write(ctx, s, st.Want); err != nil {
			errs = append(errs, fmt.Errorf("cannot set %s = %s: %w", s, st.Want, err))
			continue
		}
		if m.held == nil {
			m.held = map[setting.Setting]holding{}
		}
		m.held[s] = holding{old.before, st.Want}
	}
	return errors.Join(errs...)
}

// letGo releases held values that are no longer requested.
func (m *agentMachine) letGo(ctx context.Context, wanted map[setting.Setting]tune.Step) error {
	var errs []error
	for s, h := range m.held {
		if _, ok := wanted[s]; ok {
			continue
		}
		if err := m.kinds.Write(ctx, s, h.before); err != nil {
			errs = append(errs, fmt.Errorf("cannot restore %s: %w", s, err))
			continue
		}
		delete(m.held, s)
	}
	return errors.Join(errs...)
}
