package plugin

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Loops plans the part of a unit that follows the load, and returns a line for each item that
// does not.
func Loops(t testing.TB, p plugin.Plugin, h *host.Host, kinds setting.Kinds, u *profile.Unit, change ...func(*plugin.Request)) ([]plugin.Loop, []string) {
	t.Helper()
	ctx := context.Background()
	r := &plugin.Request{Host: h, Kinds: kinds, Unit: *u, Original: func(s setting.Setting) (setting.Value, error) {
		return kinds.Read(ctx, s)
	}}
	if p.Devices != nil {
		assigned, _ := plugin.Assign(ctx, h, []plugin.Plugin{p}, []*profile.Unit{u})
		r.Devices = assigned[u.Name]
	}
	for _, c := range change {
		c(r)
	}
	loops, items, err := p.Dynamic(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, it := range items {
		lines = append(lines, Line(it))
	}
	return loops, lines
}
