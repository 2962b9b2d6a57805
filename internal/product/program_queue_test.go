package product

import (
	"net"
	"os"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
)

// TestConnectionsWaiting listens without accepting: the kernel completes the connections, and they
// wait.
func TestConnectionsWaiting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before, is := ConnectionsWaiting(host.Live(), os.Getpid()).Value.(float64)
	if !is {
		t.Fatal("no number")
	}
	for range 3 {
		c, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if got := ConnectionsWaiting(host.Live(), os.Getpid()); got.Value != before+3 {
		t.Errorf("%v connections wait, want 3 more than %v", got, before)
	}
	recorded, err := host.Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := ConnectionsWaiting(recorded, 1); got.Unknown == "" {
		t.Errorf("a copy without the tables: %v", got)
	}
}
