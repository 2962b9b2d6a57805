package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Offloads switches offloads of a network device while a bench measures: each switch is a
// transaction on trial, and a watchdog undoes it if this process is killed.
type Offloads struct {
	Changes []network.Change
	held
}

// offloadGroups are the offloads with the kernel's names of their features (include/linux/
// netdev_features.h); * stands for anything.
var offloadGroups = []struct {
	name     string
	features []string
}{
	{"tso", []string{"tx-tcp*-segmentation"}}, {"gso", []string{"tx-generic-segmentation"}}, {"gro", []string{"rx-gro"}},
	{"checksums", []string{"tx-checksum-*", "rx-checksum"}},
}

// SwitchOffloads prepares to switch the offloads of a device. Nothing is changed yet.
func SwitchOffloads(ctx context.Context, m *tune.Machine, w tune.Watchdog, device string) (o *Offloads, err error) {
	planned, err := offloadSwitches(m.Host, device)
	if err != nil {
		return nil, err
	}
	o = &Offloads{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Release(ctx))
		}
	}()
	if err := o.open(ctx, m, "bench network"); err != nil {
		return o, err
	}
	var all []setting.Setting
	for _, s := range planned {
		for _, c := range s.changes {
			all = append(all, c.Setting)
		}
		o.add(m, s)
	}
	if err := tune.UnderTest(o.lease, all); err != nil {
		return o, err
	}
	// 0 is not a deadline: the watchdog undoes the changes of all experiments, and the lease allows
	// only this one.
	return o, o.guard(w, &journal.Try{})
}

// offloadSwitch is one switch of offloads.
type offloadSwitch struct {
	network.Change // without Apply and Undo
	changes        []setting.Change
}

// offloadSwitches returns the switches that are possible on a device.
func offloadSwitches(h *host.Host, device string) (all []offloadSwitch, err error) {
	features, err := h.Net.Params(device, host.NetFeatures)
	if err != nil {
		return nil, fmt.Errorf("the offloads of %s: %w", device, err)
	}
	for _, g := range offloadGroups {
		changes, to := switched(features, device, g.features)
		if len(changes) == 0 {
			continue
		}
		s := offloadSwitch{network.Change{Name: g.name + " " + to}, changes}
		for _, c := range changes {
			s.Settings = append(s.Settings, c.Setting.String())
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		err = ui.Exit(ui.Failed, fmt.Errorf("%s has no offload that can be switched (ethtool -k %s)", device, device))
	}
	return all, err
}

// OffloadChanges returns the changes that SwitchOffloads would make, for display only. If device is
// "", it is not known yet, and the changes list all possible features.
func OffloadChanges(h *host.Host, device string) (all []network.Change, err error) {
	if device == "" {
		for _, g := range offloadGroups {
			c := network.Change{Name: g.name + " off or on"}
			for _, f := range g.features {
				c.Settings = append(c.Settings, "net:*/feature-"+f)
			}
			all = append(all, c)
		}
		return all, nil
	}
	switches, err := offloadSwitches(h, device)
	for _, s := range switches {
		all = append(all, s.Change)
	}
	return all, err
}

// switched returns the changes that switch the active features of a group off, or all on if none
// is active. Features that others suppress, or that the device fixes, stay.
func switched(features []host.NetParam, device string, names []string) (changes []setting.Change, to string) {
	of := slices.DeleteFunc(slices.Clone(features), func(f host.NetParam) bool {
		return f.Fixed || f.Requested != "" || !slices.ContainsFunc(names, func(pattern string) bool {
			before, after, star := strings.Cut(pattern, "*")
			return f.Name == pattern || star && strings.HasPrefix(f.Name, before) && strings.HasSuffix(f.Name, after)
		})
	})
	to = "on"
	if slices.ContainsFunc(of, func(f host.NetParam) bool { return f.Value == "on" }) {
		to = "off"
	}
	for _, f := range of {
		if f.Value != to {
			changes = append(changes, setting.Change{Setting: setting.Setting{Kind: "net", Name: device + "/feature-" + f.Name}, Want: setting.Text(to),
				Reason: setting.Reason{Text: "fettle bench network --change-offloads"}})
		}
	}
	return changes, to
}

// add adds a change. Each time it is made, it gets a deadline after network.TrialTime, in case both
// this process and its watchdog are killed.
func (o *Offloads) add(m *tune.Machine, s offloadSwitch) {
	t := &prove.Tuning{Engine: m.Engine, Options: tune.ApplyOptions{Kind: journal.Apply, Atomic: true},
		Planner: func(ctx context.Context, state *journal.State) (*tune.Plan, error) {
			return m.PlanAsked(ctx, s.changes, state)
		}}
	o.tunings = append(o.tunings, t)
	s.Undo = t.Undo
	s.Apply = func(ctx context.Context) (err error) {
		if t.Options.Try, err = deadlineAfter(m, network.TrialTime); err != nil {
			return err
		}
		return t.Apply(ctx)
	}
	o.Changes = append(o.Changes, s.Change)
}

// Release undoes the changes that are still in force, even after ctx has ended, and ends the
// watchdog.
func (o *Offloads) Release(ctx context.Context) error {
	return o.end(ctx, "cannot restore the offloads")
}

// CarriesSSH reports whether the ssh session of this process comes through a network device.
func CarriesSSH(device string) bool {
	client := host.Self().Client
	if client == "" {
		client, _, _ = strings.Cut(os.Getenv("SSH_CONNECTION"), " ")
	}
	if client == "" {
		return false
	}
	c, err := (&net.Dialer{Timeout: time.Second}).Dial("udp", net.JoinHostPort(strings.Trim(client, "[]"), "9")) // sends nothing
	if err != nil {
		return true // unknown
	}
	defer c.Close()
	i, err := net.InterfaceByName(device)
	if err != nil {
		return true
	}
	addresses, _ := i.Addrs()
	for _, a := range addresses {
		if n, is := a.(*net.IPNet); is && n.IP.Equal(c.LocalAddr().(*net.UDPAddr).IP) {
			return true
		}
	}
	return false
}
