package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/size"
	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type benchNetworkOptions struct {
	serve, untilInputEnds bool
	key, cells, bytes     string
	overlay               string
	takes, every          time.Duration
	size                  int
	changeOffloads        bool
	dryRun                bool
}

func benchNetworkCommand(a *app) *cobra.Command {
	var o benchNetworkOptions
	c := &cobra.Command{
		Use: "network [PEER]", Short: "Measure throughput, latency, loss and MTU to another machine",
		Long: `Measures the network between this machine and another one that runs fettle: throughput of
TCP with one and several streams in both directions, and its limit; time of requests;
jitter, loss and reordering of UDP; latency under load; path MTU.
If the peer is ssh:HOST, fettle is started there. If it is HOST, first start fettle bench
network --serve ADDRESS there. It binds this one address, serves one client that has its
key, and ends after 30 minutes.
With --overlay the same cells are also measured inside an overlay network, which shows the
cost of its tunnels. With --change-offloads they are also measured with each offload of
this machine's device switched: TSO, GSO, GRO and checksums.
Without --cells, the cells are ` + cellNames(network.Cells()) + `;
with --overlay ` + cellNames(network.OverlayCells()) + `; with --change-offloads ` + cellNames(network.OffloadCells()) + ".",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			word := strings.Join(args, "")
			if o.serve {
				return a.serveNetwork(c.Context(), o, word)
			}
			return a.benchNetwork(c.Context(), o, word)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.serve, "serve", false, "serve one client at ADDRESS of this machine, such as --serve 192.0.2.7 (without =)")
	f.BoolVar(&o.untilInputEnds, "until-input-ends", false, "with --serve: end with standard input")
	_ = f.MarkHidden("until-input-ends")
	f.StringVar(&o.key, "key", "", "key that the peer prints (default $FETTLE_NETWORK_KEY)")
	cliutil.Secret(f, "key")
	f.StringVar(&o.overlay, "overlay", "", "address of the peer inside an overlay network, to compare; on both sides unless PEER is ssh:HOST")
	f.StringVar(&o.cells, "cells", "", "measurements, such as send-1,receive-8,request-64k,udp,loaded-send (default: see above)")
	f.DurationVar(&o.takes, "for", network.DefaultFor, "time of each measurement, such as 30s")
	f.StringVar(&o.bytes, "bytes", "", "maximum transfer of each throughput measurement, such as 10GiB (default 1GiB)")
	f.DurationVar(&o.every, "every", network.DefaultEvery, "interval of UDP probes, such as 20ms")
	f.IntVar(&o.size, "size", network.DefaultSize, "payload of a UDP probe in bytes")
	f.BoolVar(&o.changeOffloads, "change-offloads", false, "also measure with each offload of this machine's device temporarily in its other state, one offload at a time")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be measured, and measure nothing")
	for _, only := range []string{"key", "cells", "for", "bytes", "every", "size", "change-offloads", "dry-run"} {
		cliutil.Excludes(c, "serve", "--serve does what the client requests", only)
	}
	cliutil.Between(f, "for", network.LeastFor, network.MostFor, network.DefaultFor)
	cliutil.Between(f, "every", network.LeastEvery, time.Second, network.DefaultEvery)
	cliutil.Between(f, "size", 48, 65507, network.DefaultSize)
	cliutil.Reads(f, "overlay", "10.128.2.1", func(word string) error { _, err := network.ServeAt(word); return err })
	cliutil.Reads(f, "cells", "send-1,udp", func(word string) error { _, err := network.ParseCells(word); return err })
	cliutil.Reads(f, "bytes", "10GiB", func(word string) error {
		n, err := unit.ParseSize(word)
		if err == nil && (n < network.LeastBytes || n > unit.PiB) {
			err = cmp.Or(unit.Bare(word, network.LeastBytes, unit.PiB), errors.New("want from 10 MiB to 1 PiB"))
		}
		return err
	})
	return c
}

// cellNames lists the names of cells.
func cellNames(cells []network.Cell) string {
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.Name()
	}
	return strings.Join(names, ", ")
}

// plan returns the plan of the options, which are valid.
func (o benchNetworkOptions) plan() network.Plan {
	p := network.NewPlan()
	p.For, p.Every, p.Size, p.Overlay = o.takes, o.every, o.size, o.overlay != ""
	if p.Overlay {
		p.Cells = network.OverlayCells()
	}
	if o.changeOffloads {
		p.Cells = network.OffloadCells()
	}
	if o.cells != "" {
		p.Cells, _ = network.ParseCells(o.cells)
	}
	if o.bytes != "" {
		n, _ := unit.ParseSize(o.bytes)
		p.Bytes = int64(n)
	}
	return p
}

func (a *app) benchNetwork(ctx context.Context, o benchNetworkOptions, peer string) error {
	if peer == "" {
		return ui.Retry(ui.Usage, errors.New("no peer given: to measure the network, fettle must also run on the other machine"), "", "ssh:HOST")
	}
	p := o.plan()
	if o.dryRun {
		return a.planNetwork(ctx, o, p, peer)
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	c, err := network.Target{Host: peer, Key: cmp.Or(o.key, os.Getenv(network.KeyVariable)), Overlay: o.overlay}.Connect(ctx, m.Host)
	switch {
	case errors.Is(err, network.ErrKey):
		return ui.Hinted(ui.Usage, err, "each start of --serve makes a new key, for one client")
	case errors.Is(err, network.ErrNoKey), errors.Is(err, network.ErrPort):
		return ui.Exit(ui.Usage, err)
	case errors.Is(err, network.ErrNoOverlay):
		return ui.Hinted(ui.Failed, err, "the peer may have been started without --overlay; it still waits; end it, and start it with fettle bench network --serve ADDRESS --overlay "+o.overlay)
	case errors.Is(err, network.ErrNoPeer):
		return ui.Hinted(ui.Failed, err, "start fettle bench network --serve there; it serves one client, once. Firewalls must allow its port, TCP and UDP")
	case err != nil:
		return err
	}
	defer c.Close()
	client := c.Client
	changes, release, err := a.offloads(ctx, m, o, client)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // a second call does nothing
	p.Changes, p.Device = changes, client.Local.Interface
	a.screen.Say("%s: about %s", p.Words(client.Peer.String()), ui.Roughly(p.Takes(client.RTT).Seconds()))
	if words := p.ChangeWords(); words != "" {
		a.screen.Say("%s", words)
	}
	k := a.keeper(m, network.RecordKind)
	step, stop := a.screen.Steps(p.Takes(client.RTT))
	b := network.Bench{Client: client, Overlay: c.Overlay, Forecast: forecasts(c), Plan: p, Finished: func(r *network.Result) error { return k.Finished(r.Text, r) }}
	b.Progress = func(done, all int, c network.Cell) {
		step(text.Sprintf("%d of %d: %s", done+1, all, c.Name()), done, all)
	}
	result, err := b.Run(ctx)
	stop()
	err = errors.Join(err, release())
	verdict := ""
	if result != nil {
		verdict = result.Text
	}
	return finish(ctx, a, k, verdict, result, err, "the connections are closed", nil)
}

// planNetwork prints what would be measured.
func (a *app) planNetwork(ctx context.Context, o benchNetworkOptions, p network.Plan, peer string) (err error) {
	if o.changeOffloads {
		h, err := a.host()
		if err != nil {
			return err
		}
		device := network.Target{Host: peer}.Device(ctx)
		if p.Changes, err = experiment.OffloadChanges(h, device); err != nil {
			return err
		}
		p.Device = cmp.Or(device, "the device that reaches the peer")
	}
	p.Print(a.screen, peer)
	return nil
}

// forecasts returns the MTUs that size network calculates inside the overlay of a connection, or
// inside each kind if this machine's device does not have one.
func forecasts(c *network.Connection) (all []network.Forecast) {
	if c.Overlay == nil {
		return nil
	}
	for _, kind := range []string{"vxlan", "geneve"} {
		if mine := c.Overlay.Local.Kind; mine != kind && (mine == "vxlan" || mine == "geneve") {
			continue
		}
		mtu, err := size.OverlayMTU(kind, false, c.Client.Local.MTU)
		encrypted, errIPsec := size.OverlayMTU(kind, true, c.Client.Local.MTU)
		if err == nil && errIPsec == nil {
			all = append(all, network.Forecast{Overlay: kind, MTU: mtu, IPsec: encrypted})
		}
	}
	return all
}

// offloads prepares the changes of --change-offloads. release undoes what is still changed.
func (a *app) offloads(ctx context.Context, m *tune.Machine, o benchNetworkOptions, c *network.Client) (changes []network.Change, release func() error, err error) {
	if !o.changeOffloads {
		return nil, func() error { return nil }, nil
	}
	p := o.plan()
	device := c.Local.Interface
	switch {
	case device == "":
		return nil, nil, errors.New("--change-offloads: the network device of this machine's address is unknown")
	case p.Run(c.RTT) > network.TrialTime/2:
		return nil, nil, ui.Exit(ui.Usage, fmt.Errorf("--change-offloads: a run of %s is too long for a trial of %s; use a shorter --for", unit.FormatSeconds(p.Run(c.RTT).Seconds()), unit.FormatSeconds(network.TrialTime.Seconds())))
	}
	if unguarded := daemon.TrialUnguarded(m.Host); unguarded != "" && experiment.CarriesSSH(device) {
		return nil, nil, ui.Hinted(ui.Refused, fmt.Errorf("your ssh session uses %s, so its offloads are changed only if a reboot would end the trial", device), unguarded)
	}
	if err := a.mustBeRoot(); err != nil {
		return nil, nil, err
	}
	switched, err := experiment.SwitchOffloads(ctx, m, a.watchdog(), device)
	if err != nil {
		return nil, nil, err
	}
	return switched.Changes, sync.OnceValue(func() error { return switched.Release(ctx) }), nil
}

// serveNetwork is the other side of a bench.
func (a *app) serveNetwork(ctx context.Context, o benchNetworkOptions, word string) error {
	key := network.NewKey()
	peer, err := listenNetwork(word, key)
	if err != nil {
		return err
	}
	served := network.Served{Schema: network.ServeSchema, Address: peer.Address().String(), Key: key}
	if o.overlay != "" {
		inside, err := listenNetwork(o.overlay, key)
		if err != nil {
			peer.Close()
			return err
		}
		served.Overlay = inside.Address().String()
		peer.Overlay = inside
	}
	if o.untilInputEnds {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	if err := a.sayServed(&served); err != nil {
		return err
	}
	peer.Served = func(client string) {
		if !a.data() {
			a.screen.Say("serving %s", client)
		}
	}
	err = peer.Serve(ctx)
	switch {
	case err == nil && !a.data():
		a.screen.Say("the client has disconnected")
	case errors.Is(err, network.ErrLife):
		return ui.Exit(ui.Failed, fmt.Errorf("no client finished within %v; start --serve again", network.PeerLife))
	case errors.Is(err, context.Canceled) && o.untilInputEnds:
		return nil
	}
	return err
}

// listenNetwork binds an address of this machine.
func listenNetwork(word, key string) (*network.Peer, error) {
	at, err := network.ServeAt(word)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, err, "this machine has "+strings.Join(addresses(), ", "))
	}
	peer, err := network.Listen(host.Live(), at, key)
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("%s is not an address of this machine", at.Addr()), "this machine has "+strings.Join(addresses(), ", "))
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, ui.Hinted(ui.Failed, fmt.Errorf("port %d of %s is in use, perhaps by another fettle that waits", at.Port(), at.Addr()), "choose another port: --serve ADDRESS:PORT")
	}
	return peer, err
}

// sayServed prints where the peer waits, and the call for the other machine.
func (a *app) sayServed(s *network.Served) error {
	s.Headline.Line("waiting on %s for one client, at most %s", s.Address, s.Headline.Value("life_s", network.PeerLife.Seconds(), unit.FormatSeconds(network.PeerLife.Seconds())))
	if a.data() {
		return a.result(*s, nil)
	}
	ui.PrintHeadline(a.screen, &s.Headline)
	ui.PrintLine(a.screen, "on the other machine:")
	call := fmt.Sprintf("fettle bench network %s --key %s", s.Address, s.Key)
	if s.Overlay != "" {
		call += " --overlay " + s.Overlay
	}
	ui.PrintCommand(a.screen, call)
	return nil
}

// addresses returns the addresses of this machine that another one may reach.
func addresses() (all []string) {
	found, _ := net.InterfaceAddrs()
	for _, a := range found {
		if n, is := a.(*net.IPNet); is && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			all = append(all, n.IP.String())
		}
	}
	if len(all) == 0 {
		all = []string{"127.0.0.1"}
	}
	return all
}
