package bus

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestAtRest counts how often the daemon runs without any request,
// with its name on the bus and its socket: at most once in ten seconds.
func TestAtRest(t *testing.T) {
	root.Real(t, "watches the daemon for ten seconds")
	t.Parallel()
	c := start(t, "fettle")
	switches := func() string {
		return c.bus.Root.Must("sh", "-c", `sed -n 's/^voluntary_ctxt_switches:\t//p' /proc/$(pidof fettle)/task/*/status | awk '{ n += $1 } END { print n }'`)
	}
	// What the start has left to do ends first.
	var before, after string
	for range 3 {
		time.Sleep(3 * time.Second)
		before = switches()
		time.Sleep(10 * time.Second)
		after = switches()
		if number(t, after)-number(t, before) <= 1 {
			return
		}
	}
	t.Errorf("the daemon woke up %d times in ten seconds", number(t, after)-number(t, before))
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
