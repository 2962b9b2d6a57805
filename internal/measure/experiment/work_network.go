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

// networkRuns makes runs of a cell of bench network.
type networkRuns struct {
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

// networkWork returns the work for a name: CELL@PEER. Its first run connects to the peer.
func networkWork(h *host.Host, name string) (*benchWork, error) {
	cell, peer, is := strings.Cut(name, "@")
	if !is || peer == "" {
		return nil, ui.Exit(ui.Usage, errors.New("bench network: no peer; want network:CELL@ssh:HOST, or network:CELL@HOST with the key of the peer in "+network.KeyVariable))
	}
	c, err := network.ParseCell(cell)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	w := &networkRuns{host: h, cell: c, target: network.Target{Host: peer, Key: os.Getenv(network.KeyVariable)}}
	metric := prove.Metric{Name: c.Name(), Unit: network.Deciding(c).Unit, More: network.Deciding(c).More}
	return &benchWork{metric: metric, once: w.once, close: w.close}, nil
}

func (w *networkRuns) once(ctx context.Context) (float64, error) {
	if w.bench != nil && time.Since(w.since) > renewPeer && strings.HasPrefix(w.target.Host, "ssh:") {
		_ = w.close()
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

// close ends the connection, which ends the peer.
func (w *networkRuns) close() error {
	if w.bench != nil {
		w.peer.Close()
		w.bench = nil
	}
	return nil
}
