package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	component "fettle.dev/fettle/internal/product/kubelet"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/kubelet"
)

// Plan is a planned change of a node's kubelet.
type Plan struct {
	Want kubelet.Want `json:"want"`
	// Has is the digest of the node's present settings from fettle, or "".
	Has string `json:"has"`
	// File is the drop-in, Text its new content; with "" the file is removed.
	File   string         `json:"file"`
	Text   string         `json:"text"`
	Change kubelet.Change `json:"change"`
	// Settled reports whether drop-in and kubelet are already as requested.
	Settled bool `json:"settled"`

	then   kubelet.Fields // the kubelet's configuration after the change
	expect kubelet.Fields // expected /configz after the change
	had    kubelet.Fields // present /configz values of the same settings
	states []string       // the managers' state files that are moved away
}

// intent is the journal's further data about a change: the request, and the expected /configz after
// the change and after its undo.
type intent struct {
	Digest string         `json:"digest"`
	Expect kubelet.Fields `json:"expect"`
	Had    kubelet.Fields `json:"had"`
}

// UnmarshalJSON decodes whole numbers as int64.
func (i *intent) UnmarshalJSON(b []byte) error {
	var raw struct {
		Digest      string
		Expect, Had json.RawMessage
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	i.Digest = raw.Digest
	for from, to := range map[*json.RawMessage]*kubelet.Fields{&raw.Expect: &i.Expect, &raw.Had: &i.Had} {
		f, err := kubelet.Parse(*from)
		if err != nil {
			return err
		}
		*to = f
	}
	return nil
}

// Has returns the digest of the kubelet's settings from fettle, or "".
func (n *Node) Has() (string, error) {
	boot, err := n.Host.BootID()
	if err != nil {
		return "", err
	}
	s, err := journal.Read(n.StateDir, boot)
	if err != nil {
		return "", err
	}
	return has(s)
}

func has(s *journal.State) (string, error) {
	t := s.InForce()
	if t == nil {
		return "", nil
	}
	var i intent
	if err := json.Unmarshal(t.Selection, &i); err != nil {
		return "", fmt.Errorf("transaction %d of the journal: %w", t.ID, err)
	}
	return i.Digest, nil
}

// Plan plans a change. The error is ErrRefused if the change is impossible. It only reads.
func (n *Node) Plan(ctx context.Context, want kubelet.Want) (*Plan, error) {
	boot, err := n.Host.BootID()
	if err != nil {
		return nil, err
	}
	s, err := journal.Read(n.StateDir, boot)
	if err != nil {
		return nil, err
	}
	return n.plan(ctx, s, want)
}

func (n *Node) plan(ctx context.Context, s *journal.State, want kubelet.Want) (*Plan, error) {
	p := &Plan{Want: want}
	var err error
	if p.Has, err = has(s); err != nil {
		return nil, err
	}
	if p.Text, err = kubelet.DropIn(want.Fields); err != nil {
		return nil, err
	}
	setup, err := component.ReadSetup(n.Host)
	if err != nil {
		return nil, refuse("%w", err)
	}
	if setup.ConfigDir == "" {
		if len(want.Fields) == 0 && p.Has == "" {
			p.Settled = true
			return p, nil
		}
		return nil, refuse("%w", ErrNoConfigDir)
	}
	p.File = path.Join(setup.ConfigDir, DropIn)
	if err := n.ours(ctx, s, p.File); err != nil {
		return nil, err
	}
	files, err := n.readFiles(setup, p.File)
	if err != nil {
		return nil, refuse("%w", err)
	}
	if err := files.overruled(setup, want.Fields); err != nil {
		return nil, refuse("%w", err)
	}
	now, err := n.Kubelet.Configz(ctx)
	if err == nil {
		err = n.Kubelet.Well(ctx)
	}
	if err != nil {
		return nil, refuse("the kubelet must be healthy before its settings are changed: %w", err)
	}
	on := n.on(ctx)
	with := func(ours kubelet.Fields) kubelet.Fields {
		f := files.merged(ours, on.Release)
		for option := range setup.Flags {
			f[option] = now[option] // a file cannot override a flag
		}
		return f
	}
	then := with(want.Fields)
	p.then = then
	if pending := kubelet.ChangeOf(now, with(files.ours), n.Machine).Settings; len(pending) > 0 {
		return nil, refuse("%s: the kubelet's files differ from its running values, so a restart would change those too; restart the kubelet first, or correct the files", strings.Join(pending, ", "))
	}
	if problems := kubelet.Problems(then, now, on); len(problems) > 0 {
		all := errors.New(problems[0])
		for _, text := range problems[1:] {
			all = fmt.Errorf("%w; %s", all, text)
		}
		return nil, refuse("the kubelet would not start: %w", all)
	}
	p.Change = kubelet.ChangeOf(now, then, n.Machine)
	names := slices.Sorted(maps.Keys(want.Fields))
	for _, name := range p.Change.Settings {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	p.expect, p.had = kubelet.Values(then, names), kubelet.Values(now, names)
	if p.Change.CPUState {
		p.states = append(p.states, path.Join(setup.StateDir, "cpu_manager_state"))
	}
	if p.Change.MemoryState {
		p.states = append(p.states, path.Join(setup.StateDir, "memory_manager_state"))
	}
	p.Settled, err = p.settled(n)
	return p, err
}

// allow returns an error if too many pods run on the node for the change, or if it needs a drain
// first.
func (n *Node) allow(p *Plan, pods int, drained bool) error {
	cpus := 0
	if n.Machine != nil {
		cpus = len(n.Machine.CPUs)
	}
	if err := kubelet.TooManyPods(p.then, cpus, pods); err != nil {
		return refuse("%w", err)
	}
	if p.Change.Class == kubelet.Drain && !drained {
		return refuse("%s can only change while the node runs no pods; drain the node first", strings.Join(p.Change.Settings, ", "))
	}
	return p.noReboot()
}

func (p *Plan) noReboot() error {
	if p.Change.Class == kubelet.Reboot {
		return refuse("the change needs a reboot, which fettle does not do: %s", p.Change.Why)
	}
	return nil
}

// on returns the kubelet's release and its machine. If the API server does not report the version,
// only the kubelet itself detects values that its release rejects.
func (n *Node) on(ctx context.Context) kubelet.On {
	on := kubelet.On{Machine: n.Machine}
	if h, err := n.Kubelet.Heartbeat(ctx); err == nil {
		on.Kubelet = kuberelease.KubeletOf(h.Version)
	}
	on.Cgroup = cgroupVersion(n.Host)
	return on
}

// cgroupVersion returns a machine's cgroup version; 0 if unknown.
func cgroupVersion(h *host.Host) int {
	if _, err := h.Files.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return 2
	}
	if _, err := h.Files.Stat("/sys/fs/cgroup/cpuset"); err == nil {
		return 1
	}
	return 0
}

// settled reports whether drop-in and kubelet are already as requested.
func (p *Plan) settled(n *Node) (bool, error) {
	if p.Has != p.Want.Digest || p.Change.Class != kubelet.Nothing {
		return false, nil
	}
	text, err := n.Host.Files.ReadFile(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return p.Text == "", nil
	}
	return string(text) == p.Text, err
}

// ours returns an error if the drop-in was changed after fettle wrote it.
func (n *Node) ours(ctx context.Context, s *journal.State, file string) error {
	kinds := n.kinds()
	id, err := kinds.Resolve(setting.Setting{Kind: "file", Name: file})
	if err != nil {
		return err
	}
	chain := s.Chains()[id]
	if len(chain) == 0 {
		return nil
	}
	now, err := kinds.Read(ctx, id)
	if err != nil {
		return err
	}
	if last := chain[len(chain)-1]; !last.LeftBy(now, func(a, b setting.Value) bool { return kinds.Equal(id, a, b) }) {
		return refuse("%s was edited after fettle wrote it; restore the file's content, or remove the directory %s so that fettle forgets this file", file, n.StateDir)
	}
	return nil
}

// configuration holds a kubelet's configuration files.
type configuration struct {
	main        kubelet.Fields    // file of --config
	under, over []kubelet.Fields  // drop-ins before and after fettle's
	ours        kubelet.Fields    // fettle's present drop-in
	overFrom    map[string]string // later drop-in by setting
}

func (n *Node) readFiles(s component.Setup, ours string) (*configuration, error) {
	c := &configuration{overFrom: map[string]string{}}
	read := func(name string) (kubelet.Fields, error) {
		text, err := n.Host.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := kubelet.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return f, nil
	}
	if s.Config != "" {
		f, err := read(s.Config)
		if err != nil {
			return nil, err
		}
		c.main = f
	}
	if _, err := n.Host.Files.Stat(s.ConfigDir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("directory %s of the kubelet's --config-dir no longer exists", s.ConfigDir)
	}
	all, err := component.DropIns(n.Host, s.ConfigDir)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		f, err := read(name)
		if err != nil {
			return nil, err
		}
		if name == ours {
			c.ours = f
			continue
		}
		if name < ours {
			c.under = append(c.under, f)
			continue
		}
		c.over = append(c.over, f)
		for option := range f {
			c.overFrom[option] = name
		}
	}
	return c, nil
}

// merged returns the configuration with fettle's drop-in ours, as a release's kubelet reads it.
// Before 1.32 the kubelet first merges the drop-ins, and then merges the result into the main file,
// where null removes nothing.
func (c *configuration) merged(ours kubelet.Fields, r kuberelease.Release) kubelet.Fields {
	dropIns := slices.Concat(c.under, []kubelet.Fields{ours}, c.over)
	if r == 0 || kuberelease.Known().Loads(kuberelease.LoaderVersioned, r) {
		return kubelet.MergeAll(c.main, dropIns)
	}
	return kubelet.Merge(c.main, kubelet.MergeAll(nil, dropIns))
}

// overruled returns an error if a flag or a later drop-in overrides a requested setting.
func (c *configuration) overruled(s component.Setup, want kubelet.Fields) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if f, ok := s.Flags[name]; ok {
			return fmt.Errorf("%s is on the kubelet's command line (%s: %s), which overrides every file; remove the flag", name, f.At, f.Value)
		}
		if file, ok := c.overFrom[name]; ok && len(kubelet.Differences(kubelet.Fields{name: want[name]}, kubelet.MergeAll(nil, c.over))) > 0 {
			return fmt.Errorf("%s is also in %s, which overrides %s; remove it from that file", name, file, DropIn)
		}
	}
	return nil
}
