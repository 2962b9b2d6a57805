package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/tuned"
)

// Outcome is the result of one Look at the node.
type Outcome struct {
	Decision Decision
	// Profile is the cluster's profile in force; "" if none exists.
	Profile string
	// Tx is the transaction that applied or removed the profile.
	Tx int
	// Values has a verdict for each value of the profile in force; nil without a profile.
	Values *tune.Verification
	// Switches are the profile switches in the node's journal, newest last.
	Switches []Switch
	// Err is the first failure, or nil.
	Err error
	// Recovered are interrupted transactions that Look rolled back first.
	Recovered []int
	// Busy reports whether another transaction is running on the node, so Look should be retried
	// soon.
	Busy bool
}

// Look recovers interrupted transactions, decides, carries out the decision, and verifies the
// values in force. heard reports whether the API server has answered; p is the node's Profile
// object, or nil.
func (n *Node) Look(ctx context.Context, heard bool, p *tuned.Profile) Outcome {
	var out Outcome
	out.Err = n.look(ctx, heard, p, &out)
	out.Busy = errors.Is(out.Err, journal.ErrBusy) || errors.Is(out.Err, tune.ErrLeased)
	return out
}

func (n *Node) look(ctx context.Context, heard bool, p *tuned.Profile, out *Outcome) error {
	m, err := n.open(ctx)
	if err != nil {
		return err
	}
	boot, err := m.host.BootID()
	if err != nil {
		return err
	}
	if x := tune.Holder(m.engine.StateDir); x != nil {
		return fmt.Errorf("on the node %s: %w", x.Doing(), tune.ErrLeased)
	}
	if out.Recovered, err = m.engine.Recover(ctx); err != nil {
		return err
	}
	state, err := m.engine.State()
	if err != nil {
		return err
	}
	mem := m.remembered()
	s := Situation{Boot: boot, Decided: mem.Boot, Heard: heard}
	var sel *tune.Selection
	if s.InForce, sel, err = inForce(state); err != nil {
		return err
	}
	if heard {
		if s.Wanted, err = m.wanted(ctx, p); err != nil {
			return err
		}
	}
	if s.Wanted != nil && s.Wanted.Fault == "" {
		s.Wanted.Fault = m.otherTuner(ctx, s.Wanted.Profile)
	}
	if p != nil {
		m.rule = p.Annotations[tuned.RuleAnnotation]
	}
	out.Decision = Decide(s)
	if out.Decision.Action == Apply || s.Wanted != nil && s.InForce != nil && s.InForce.Origin == s.Wanted.Origin {
		mem.ReapplySysctl = reapplyOf(p)
	}
	m.reapply(mem.ReapplySysctl)
	if err := m.carryOut(ctx, out, s, sel, state); err != nil {
		return errors.Join(err, m.verify(ctx, out))
	}
	if heard {
		mem.Boot = boot
		if err := m.remember(mem); err != nil {
			return err
		}
	}
	return m.verify(ctx, out)
}

// carryOut carries out one decision.
func (m *agentMachine) carryOut(ctx context.Context, out *Outcome, s Situation, sel *tune.Selection, state *journal.State) error {
	switch out.Decision.Action {
	case Apply:
		m.engine.Reason = because("Profile "+m.Name+": "+s.Wanted.Profile, m.rule)
		p, err := m.load(ctx, s.Wanted.Profile)
		if err != nil {
			return err
		}
		sel, err := tune.NewSelection(p, []string{s.Wanted.Profile}, tune.ModeAuto)
		if err != nil {
			return err
		}
		sel.Origin = s.Wanted.Origin
		return m.transact(ctx, p, out, tune.ApplyOptions{Kind: journal.Tune, Selection: sel, OrNothing: true})
	case Again:
		m.engine.Reason = "boot: " + s.InForce.Profile
		p, err := m.accepted(ctx, sel)
		if err != nil {
			return err
		}
		return m.transact(ctx, p, out, tune.ApplyOptions{Kind: journal.Boot, Selection: sel, Supersedes: []int{state.InForce().ID}})
	case Restore:
		return m.withdraw(ctx, out)
	}
	return nil
}

// transact applies a profile as one transaction.
func (m *agentMachine) transact(ctx context.Context, p *profile.Profile, out *Outcome, o tune.ApplyOptions) error {
	done, err := m.engine.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return m.engine.PlanProfile(ctx, p, s)
	}, o)
	if err != nil {
		return err
	}
	out.Tx = done.Tx
	out.Recovered = append(out.Recovered, done.Recovered...)
	if done.Result == tune.ResultNothing || done.Result == journal.ResultRolledBack {
		return fmt.Errorf("profile %s: none of its values could be set%s", o.Selection.Profiles[0], firstRejected(done.Plan))
	}
	return nil
}

// firstRejected returns the end of a sentence with the first rejected value and the reason.
func firstRejected(p *tune.Plan) string {
	for _, s := range p.Steps {
		if s.Verdict == plugin.Rejected {
			return fmt.Sprintf(": %s: %s", showPlace(s.Setting), s.Why)
		}
	}
	return ""
}

// accepted loads the profile in force in its accepted form.
func (m *agentMachine) accepted(ctx context.Context, sel *tune.Selection) (*profile.Profile, error) {
	p, err := m.engine.LoadAccepted(ctx, sel, m.loader)
	if err == nil {
		withoutScripts(p, m.Allow)
	}
	return p, err
}

// withdraw undoes the cluster's selections. Individually set values stay.
func (m *agentMachine) withdraw(ctx context.Context, out *Outcome) error {
	m.engine.Reason = "the cluster has no profile for node " + m.Name
	state, err := m.engine.State()
	if err != nil {
		return err
	}
	var ids []int
	for _, t := range state.Live() {
		sel, err := tune.SelectionOf(t)
		if err != nil {
			return err
		}
		if sel != nil && sel.Origin != "" && t.Commit != nil {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	done, err := m.engine.Undo(ctx, ids...)
	if done != nil {
		out.Tx = done.Tx
		for _, v := range done.Values {
			if v.State == journal.KeptNow {
				m.tell("%s left unchanged: %s", v.Setting, v.Why)
			}
		}
	}
	if errors.Is(err, tune.ErrNothing) {
		return nil
	}
	return err
}

// verify checks every value of the cluster's selection in force.
func (m *agentMachine) verify(ctx context.Context, out *Outcome) error {
	state, err := m.engine.State()
	if err != nil {
		return err
	}
	boot, err := m.host.BootID()
	if err != nil {
		return err
	}
	if out.Switches, err = m.recall(state, boot); err != nil {
		m.tellOnce("cannot read the history of the node's journal: " + err.Error())
	}
	now, sel, err := inForce(state)
	if err != nil || now == nil || now.Origin == "" {
		return errors.Join(err, m.letGo(ctx, nil))
	}
	out.Profile = now.Profile
	p, err := m.accepted(ctx, sel)
	if err != nil {
		return err
	}
	e := *m.engine
	e.Holds = true
	held := m.hold(ctx, &e, p, state)
	out.Values, err = e.Verify(ctx, p, state)
	return errors.Join(held, err)
}

// Uninstall restores the node's values from before the agent, and removes the agent's files. The
// journal stays, because fettle on the node uses it too.
func (n *Node) Uninstall(ctx context.Context) (Outcome, error) {
	out := Outcome{Decision: Decision{Action: Restore}}
	m, err := n.open(ctx)
	if err != nil {
		return out, err
	}
	if out.Recovered, err = m.engine.Recover(ctx); err != nil {
		return out, err
	}
	if err := m.withdraw(ctx, &out); err != nil {
		return out, err
	}
	return out, m.remove(Dir)
}

// memory is agent state that outlives its process and the node's boots.
type memory struct {
	// Boot is the boot in which the agent last carried out a decision about its Profile object.
	Boot string `json:"boot_id"`
	// ReapplySysctl is the operand option of the profile in force: "true", "false", or "" if unset.
	// After a boot it is needed before the API server has answered.
	ReapplySysctl string `json:"reapply_sysctl,omitempty"`
}

const memoryFile = Dir + "/agent.json"

// remembered reads the agent's memory. If it is unreadable it counts as empty, and a deferred
// request waits for one more boot.
func (m *agentMachine) remembered() (mem memory) {
	text, err := m.host.Files.ReadFile(memoryFile)
	if err == nil {
		err = json.Unmarshal(text, &mem)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.tell("%s: %v", memoryFile, err)
	}
	return mem
}

func (m *agentMachine) remember(mem memory) error {
	if m.remembered() == mem {
		return nil
	}
	if err := m.mkdir(Dir); err != nil {
		return err
	}
	text, err := json.Marshal(mem)
	if err != nil {
		return err
	}
	return m.host.Files.Replace(memoryFile, append(text, '\n'), host.Attr{Mode: 0o600})
}
