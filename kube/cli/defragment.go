package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/etcd"
)

// defragmentOptions are those of check --defragment.
type defragmentOptions struct {
	asked, yes, noCompact bool
	share                 float64 // per cent
	size                  string
}

func (o *defragmentOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.asked, "defragment", false, "compact etcd, and write the databases of its members anew, the leader's last")
	f.BoolVarP(&o.yes, "yes", "y", false, "with --defragment: do not ask")
	f.BoolVar(&o.noCompact, "no-compact", false, "with --defragment: leave the history as it is")
	f.Float64Var(&o.share, "defragment-share", 100*etcd.Default.Share, "with --defragment: per cent of a database that have to be free")
	f.StringVar(&o.size, "defragment-size", strconv.FormatUint(etcd.Default.Bytes/1e6, 10)+"MB", "with --defragment: and how much has to be free")
	cliutil.Between(f, "defragment-share", 0.0, 100, 100*etcd.Default.Share)
	cliutil.Reads(f, "defragment-size", "500MB", func(word string) error { _, err := unit.ParseSize(word); return err })
}

func (o *defragmentOptions) check(changed func(string) bool) error {
	if !o.asked {
		for _, name := range []string{"yes", "no-compact", "defragment-share", "defragment-size"} {
			if changed(name) {
				return ui.Without(fmt.Errorf("--%s goes with --defragment", name), "--"+name)
			}
		}
		return nil
	}
	for _, name := range []string{"fail-on", "disable", "all", "kubelet-time"} {
		if changed(name) {
			return ui.Without(fmt.Errorf("--%s goes with an audit, and --defragment makes none", name), "--"+name)
		}
	}
	return nil
}

// After a member was written anew the cluster has two minutes to be well.
const (
	settle    = 2 * time.Minute
	lookEvery = 500 * time.Millisecond
)

// calm is how long after a compaction what is in use has to stay as it is.
var calm = 10 * time.Second

// defragment shows what would be done, asks, and does it.
func (a *app) defragment(ctx context.Context, o checkOptions) error {
	size, err := unit.ParseSize(o.defrag.size)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	members, unasked, err := a.members(ctx, &o.etcd, func() (*cluster.Server, error) {
		s, _, err := a.apiServer()
		return s, err
	})
	switch {
	case err != nil:
		return checkExit(ctx, err)
	case unasked != "":
		return ui.Retry(ui.Usage, fmt.Errorf("nothing is defragmented: %s", unasked), "", "--etcd-endpoints=https://127.0.0.1:2379")
	}
	plan, err := etcd.Make(ctx, members, etcd.Limits{Share: o.defrag.share / 100, Bytes: uint64(size)}, !o.defrag.noCompact)
	if err != nil {
		return defragmentExit(err, nil)
	}
	a.printDefragment(plan)
	if !o.defrag.yes {
		yes, err := a.screen.Confirm(ctx, "Defragment?")
		if err == nil && !yes {
			err = ui.Retry(ui.Refused, errors.New("nothing is changed: the answer was not yes"), "", "--yes")
		}
		if err != nil {
			return err
		}
	}
	w := etcd.Work{Members: members, Settle: settle, Look: lookEvery, Calm: calm, Tell: func(text string) { a.screen.Say("%s", text) }}
	done, err := w.Run(ctx, plan)
	err = defragmentExit(err, done)
	if a.data() {
		return a.result(done, err)
	}
	a.printDefragmented(done)
	return err
}

// defragmentExit gives an error its code: what was done stays.
func defragmentExit(err error, done *etcd.Result) error {
	if err == nil {
		return nil
	}
	some := done != nil && (done.Compacted || len(done.Done) > 0)
	var refused *etcd.Refused
	switch {
	case errors.Is(err, context.Canceled) && some:
		return ui.Exit(ui.Interrupted, fmt.Errorf("interrupted; what was done stays, and %s were not reached", strings.Join(done.Left, ", ")))
	case errors.Is(err, context.Canceled):
		return ui.Exit(ui.Interrupted, errors.New("interrupted; nothing is changed"))
	case some:
		return ui.Hinted(ui.Partial, fmt.Errorf("%w; not reached: %s", err, strings.Join(done.Left, ", ")), "etcdctl endpoint status --cluster; once all members are well, the same call goes on")
	case errors.As(err, &refused):
		return ui.Retry(ui.Refused, fmt.Errorf("nothing is defragmented: %w", err), "a member stands still while it is defragmented, so all others have to be well (etcdctl endpoint status --cluster shows them)")
	}
	return err
}

func size(n uint64) string { return unit.Size(n).Human() }

// printDefragment shows a plan. Who wants data gets it with what was done.
func (a *app) printDefragment(p *etcd.Plan) {
	if !a.data() {
		g := ui.Grid{Head: []string{"ORDER", "MEMBER", "ID", "ROLE", "DATABASE", "IN USE", "FREE", "ABOVE THE LIMITS"}}
		for i, s := range p.Steps {
			role, above, free := "follower", "no", s.DatabaseBytes-s.InUseBytes
			if s.Leader {
				role = "leader"
			}
			if s.Worth {
				above = "yes"
			}
			share := 0.0
			if s.DatabaseBytes > 0 {
				share = 100 * float64(free) / float64(s.DatabaseBytes)
			}
			g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), s.Endpoint, s.MemberID, role, size(s.DatabaseBytes), size(s.InUseBytes), fmt.Sprintf("%s, %.0f %%", size(free), share), above})
		}
		g.Write(a.screen)
	}
	if p.CompactTo > 0 {
		a.screen.Say("history before revision %d is compacted first: who reads older revisions is told to list anew. It takes some seconds until the members have counted what is free then", p.CompactTo)
	}
	a.screen.Say("then each member of whose database more than %g %% and more than %s are free is defragmented; it answers no request meanwhile (about 2 s for each GiB on a fast disk)", 100*p.Limits.Share, size(p.Limits.Bytes))
	if p.NoSpace {
		a.screen.Say("the cluster has the alarm NOSPACE: afterwards etcdctl alarm disarm lets it write again")
	}
	a.screen.Say("a snapshot before it does no harm: etcdctl snapshot save FILE")
}

// printDefragmented shows what was done.
func (a *app) printDefragmented(r *etcd.Result) {
	g := ui.Grid{Head: []string{"MEMBER", "BEFORE", "AFTER", "TOOK", ""}}
	for _, d := range r.Done {
		took := fmt.Sprintf("%.2f s", d.DurationS)
		if d.Skipped != "" {
			took = "-"
		}
		g.Rows = append(g.Rows, []string{d.Endpoint, size(d.BeforeBytes), size(d.AfterBytes), took, d.Skipped})
	}
	if len(g.Rows) > 0 {
		g.Write(a.screen)
	}
}
