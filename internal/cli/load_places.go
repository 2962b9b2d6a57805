package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ssh"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// localMachine is the value of --observe for this machine.
const localMachine = "local"

// checkPlaces returns an error for duplicate machines, and for fewer connections than machines.
func (o loadHTTPOptions) checkPlaces() error {
	if err := namedOnce("--observe", o.observe); err != nil {
		return err
	}
	if err := namedOnce("--clients", o.clients); err != nil {
		return err
	}
	return o.CheckGenerators(len(o.clients)+len(o.clientCommands), "client")
}

// namedOnce rejects a machine that a flag names more than once.
func namedOnce(option string, words []string) error {
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			once := slices.Compact(slices.Sorted(slices.Values(words)))
			return ui.Instead(ui.Usage, fmt.Errorf("%s names %s twice", option, word), "", option+"="+strings.Join(once, ","))
		}
	}
	return nil
}

// sshHosts returns a check for a list of hosts. With local it accepts this machine too.
func sshHosts(local bool) func(words string) error {
	return func(words string) error {
		for word := range strings.SplitSeq(words, ",") {
			if _, ok := ssh.ParseHost(word); ok || local && word == localMachine {
				continue
			}
			want := "want ssh:HOST or ssh:USER@HOST; set port and key in ~/.ssh/config"
			if local {
				want = "want local, ssh:HOST or ssh:USER@HOST"
			}
			return errors.New(want)
		}
		return nil
	}
}

// places returns the machines for the workers, as named by flags.
func places(clients, commands []string) (all []fleet.Place, err error) {
	for _, word := range clients {
		host, _ := ssh.ParseHost(word)
		words, err := ssh.Command(host, "fettle", "load", "worker")
		if err != nil {
			return nil, err
		}
		all = append(all, fleet.Place{Name: host, Words: words})
	}
	for i, command := range commands {
		all = append(all, fleet.Place{Name: fmt.Sprintf("command %d", i+1), Words: []string{"sh", "-c", command}})
	}
	return all, nil
}

// rig starts the generators and the observers.
func (a *app) rig(ctx context.Context, o loadHTTPOptions, p *load.Plan, j *load.Job) (_ *load.Rig, err error) {
	g := &load.Rig{}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	for _, word := range o.observe {
		source, name := fleet.Local(host.Live()), word
		if word != localMachine {
			name, _ = ssh.ParseHost(word)
			if source, err = fleet.SSH(name); err != nil {
				return nil, err
			}
		}
		one, err := fleet.New(ctx, name, source)
		if err != nil {
			return nil, err
		}
		g.Observers = append(g.Observers, one)
	}
	places, err := places(o.clients, o.clientCommands)
	switch {
	case err != nil:
		return nil, err
	case len(places) == 0:
		if err := enoughFiles(p); err != nil {
			return nil, err
		}
		g.Prepared, err = load.Prepare(ctx, *p)
		return g, err
	}
	j.Connections = (j.Connections + len(places) - 1) / len(places)
	a.screen.Status("waiting for %s", text.Count(len(places), "client"))
	g.Fleet, err = fleet.Start(ctx, places, j, fleet.ToStart+loadcli.Prepare(p))
	a.screen.Status("")
	if err != nil {
		return nil, err
	}
	g.Prepared = load.Led(*p, g.Fleet)
	for _, origin := range p.Set.Origins {
		if socket := origin.Sockets[0]; socket.Addr().IsLoopback() {
			a.screen.Say("%s is a loopback address: each client loads its own machine", origin.HostPort)
		}
	}
	return g, nil
}
