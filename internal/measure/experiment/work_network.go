package experiment

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// networkWork makes runs of a cell of bench network.
type networkWork struct {
	host   *host.Host
	cell   network.Cell
	target network.Target
	bench  *network.Bench
	since  time.Time
	peer   *network.Connection
	round  int
}

// renewPeer is when a peer is started again: it serves for a limited time.
const renewPeer = network.PeerLife - 10*time.Minute

// newNetworkWork returns the work for a name: CELL@PEER.
func newNetworkWork(h *host.Host, name string) (*networkWork, error) {
	cell, peer, is := strings.Cut(name, "@")
	if !is || peer == "" {
		return nil, ui.Exit(ui.Usage, errors.New("bench network: no peer; want network:CELL@ssh:HOST, or network:CELL@HOST with the key of the peer in "+network.KeyVariable))
	}
	c, err := network.ParseCell(cell)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return &networkWork{host: h, cell: c, target: network.Target{Host: peer, Key: os.Getenv(network.KeyVariable)}}, nil
}

func (w *networkWork) Metric() prove.Metric {
	return prove.Metric{Name: w.cell.Name(), Unit: network.Deciding(w.cell).Unit, More: network.Deciding(w.cell).More}
}

// Check connects to the peer and makes one run.
func (w *networkWork) Check(ctx context.Context) error {
	_, err := w.once(ctx)
	return orFailed(err)
}

func (w *networkWork) Visit(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	v, err := w.once(ctx)
	return prove.Measurement{Values: prove.Values{w.cell.Name(): v}}, err
}

func (w *networkWork) once(ctx context.Context) (float64, error) {
	if w.bench != nil && time.Since(w.since) > renewPeer && strings.HasPrefix(w.target.Host, "ssh:") {
		_ = w.Close()
	}
	if w.bench == nil {
		c, err := w.target.Connect(ctx, w.host)
		if err != nil {
			return 0, err
		}
		w.bench, w.since, w.peer = &network.Bench{Client: c.Client, Plan: network.NewPlan()}, time.Now(), c
	}
	w.round++
	return w.bench.Once(ctx, w.cell, w.round)
}

// Close ends the connection, which ends the peer.
func (w *networkWork) Close() error {
	if w.bench != nil {
		w.peer.Close()
		w.bench = nil
	}
	return nil
}
