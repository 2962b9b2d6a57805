package override

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// BenchmarkRead reads this machine's claims, as every plan does; the budget is
// 5 ms on a usual machine.
func BenchmarkRead(b *testing.B) {
	h := host.Live()
	kinds := setting.Kernel(h)
	for b.Loop() {
		Read(context.Background(), h, kinds)
	}
}

// BenchmarkFor asks for one sysctl on a machine with patterns.
func BenchmarkFor(b *testing.B) {
	h := host.Live()
	c, _ := Read(context.Background(), h, setting.Kernel(h))
	s := setting.Setting{Kind: "sysctl", Name: "net.ipv4.conf.all.rp_filter"}
	for b.Loop() {
		c.For(s)
	}
}

// BenchmarkTuners is asked before every tune.
func BenchmarkTuners(b *testing.B) {
	for b.Loop() {
		_, _ = Tuners(context.Background(), host.Live())
	}
}
