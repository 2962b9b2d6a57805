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

func TestListenQueues(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:0000001F 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000005 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1
`
	queues := map[string]int{}
	if err := listenQueues(table, queues); err != nil || len(queues) != 1 || queues["4711"] != 31 {
		t.Errorf("%v %v", queues, err)
	}
	if err := listenQueues("0: 0100007F:1F90 00000000:0000 0A 00000000:xyz 0 0 0 0 4711", queues); err == nil {
		t.Error("an invalid table is accepted")
	}
}
