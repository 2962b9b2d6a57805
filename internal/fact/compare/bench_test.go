package compare

import (
	"os"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// BenchmarkRead reads one recorded machine: what facts compare does for each archive.
func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"debian-guest", "kvm-guest", "intel-2s-bare-metal"} {
		b.Run(name, func(b *testing.B) {
			text, err := os.ReadFile("../../../testdata/hosts/" + name + ".txt")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				h, err := host.ParseArchive(name, text)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := Read(b.Context(), h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
