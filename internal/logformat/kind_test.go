package logformat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestAddress: both checks of addresses agree with net/netip.
func TestAddress(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var texts []string
	for range 20_000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32()) >> r.IntN(8)
		}
		six := netip.AddrFrom16(b)
		four := netip.AddrFrom4([4]byte(b[:4]))
		for _, one := range []string{six.String(), six.StringExpanded(), four.String(), netip.AddrFrom16(four.As16()).String(), "fe80::" + fmt.Sprintf("%x", b[0]) + "%eth0"} {
			texts = append(texts, one)
			// Similar but invalid texts.
			other := []byte(one)
			other[r.IntN(len(other))] = "0129afg:. %]["[r.IntN(13)]
			texts = append(texts, string(other), one[r.IntN(len(one)):], one+one[r.IntN(len(one)):])
		}
	}
	for _, text := range append(texts, "", ":", "::", ":::", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1..2.3", "::1.2.3.4", "1::2::3") {
		addr, err := netip.ParseAddr(text)
		want := err == nil
		if addr.Is4() || !want && bytes.IndexByte([]byte(text), ':') < 0 {
			quick := quickIPv4(append(make([]byte, 0, len(text)+32), text...), 0, len(text))
			if slow := ipv4([]byte(text)); quick != slow {
				t.Fatalf("%q: %v the quick way, %v the other", text, quick, slow)
			}
			// Logs may write 01 for 1, which netip rejects.
			if slow := ipv4([]byte(text)); want && !slow {
				t.Fatalf("%q is an address", text)
			}
			continue
		}
		if got := ipv6([]byte(text)); got != want && bytes.IndexByte([]byte(text), '.') < 0 && !bytes.ContainsAny([]byte(text), "[]% ") {
			t.Fatalf("%q: %v, netip: %v", text, got, err)
		} else if want && !got && bytes.IndexByte([]byte(text), ' ') < 0 {
			t.Fatalf("%q is an address: %v", text, addr)
		}
	}
}
