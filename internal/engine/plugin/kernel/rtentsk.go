// rtentsk is the plug-in that keeps network timestamps enabled. Otherwise a program that enables
// them interrupts every CPU while the kernel patches its code.

package kernel

import (
	"context"
	"fmt"
	"io"
	"sync"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// RTEntsk is the plug-in for [rtentsk] sections.
var RTEntsk = plugin.Plugin{
	Name:   "rtentsk",
	Doc:    "keeps a socket with network timestamps open, so that the kernel never switches their static key while real-time work runs; it has no options",
	Always: planRtentsk,
}

// staticKeyKind is the setting kind of static keys that an open socket keeps enabled;
// netTimestamps is its only setting. The value, open or closed, tells whether this process has the
// socket open. The kernel does not expose the key's state.
const (
	staticKeyKind = "statickey"
	netTimestamps = "netstamp_needed_key"
)

func planRtentsk(_ context.Context, r *plugin.Request) ([]plugin.Item, error) {
	s := setting.Setting{Kind: staticKeyKind, Name: netTimestamps}
	return []plugin.Item{{Change: setting.Change{Setting: s, Want: setting.Text("open"), Reason: setting.Reason{
		File: r.Unit.Pos.File, Line: r.Unit.Pos.Line, Text: "[" + r.Unit.Name + "]",
	}}}}, nil
}

// RtentskKinds returns the setting kinds that this plug-in adds. The returned table owns the
// socket, so a process should make one table and keep it.
func RtentskKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{staticKeyKind: &staticKey{host: h}}
}

type staticKey struct {
	host *host.Host

	mu   sync.Mutex
	held io.Closer
}

func (k *staticKey) Resolve(s setting.Setting) (setting.Setting, error) {
	if s.Name != netTimestamps {
		return setting.Setting{}, fmt.Errorf("%s: want %s:%s", s, staticKeyKind, netTimestamps)
	}
	return s, nil
}

func (k *staticKey) Read(context.Context, setting.Setting) (setting.Value, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held != nil {
		return setting.Text("open"), nil
	}
	return setting.Text("closed"), nil
}

func (k *staticKey) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case v.Text == "open" && k.held == nil:
		held, err := k.host.Net.HoldTimestamping()
		if err != nil {
			return err
		}
		k.held = held
	case (v.Absent || v.Text == "closed") && k.held != nil:
		err := k.held.Close()
		k.held = nil
		return err
	case v.Text != "open" && v.Text != "closed" && !v.Absent:
		return fmt.Errorf("%s: %q: want open or closed", s, v.Text)
	}
	return nil
}

func (*staticKey) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (*staticKey) Coupled(setting.Setting) []setting.Setting { return nil }
func (*staticKey) Lifetime() setting.Lifetime                { return setting.Held }
