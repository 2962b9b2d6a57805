package profile

import (
	"strings"
	"testing"
	"time"
)

func TestNumaBalance(t *testing.T) {
	for _, c := range []struct {
		text      string
		processes string // separated by spaces
		exclude   string
		min, max  int // seconds
		err       string
	}{
		{text: "", min: 5, max: 15},
		{text: "numa_balance=", min: 5, max: 15},
		{text: "numa_balance = off", min: 5, max: 15},
		{text: "numa_balance=0", min: 5, max: 15},
		{text: "numa_balance=all", processes: "all", min: 5, max: 15},
		{text: "numa_balance=postgres, mysqld.service\nnuma_balance_exclude=backup", processes: "postgres mysqld.service", exclude: "backup", min: 5, max: 15},
		{text: "numa_balance=all\nnuma_balance_interval=60", processes: "all", min: 5, max: 60},
		{text: "numa_balance_interval=3", min: 3, max: 3},
		{text: "numa_balance_interval=10:300", min: 10, max: 300},
		{text: "numa_balance=1", err: "f:1: numa_balance=1: expected all, or a list"},
		{text: "daemon=1\nnuma_balance=all,postgres", err: `f:2: numa_balance=all,postgres: expected "all" alone`},
		{text: "numa_balance=postgres,4711", err: `f:1: numa_balance=postgres,4711: "4711" is a process number`},
		{text: "numa_balance_exclude=4711", err: `"4711" is a process number`},
		{text: "numa_balance=0123456789ab", processes: "0123456789ab", min: 5, max: 15}, // a container
		{text: "numa_balance_interval=0", err: "f:1: numa_balance_interval=0: expected seconds as [MIN:]MAX"},
		{text: "numa_balance_interval=15:5", err: "[MIN:]MAX"},
		{text: "numa_balance_interval=5:86401", err: "[MIN:]MAX"},
		{text: "numa_balance_interval=5s", err: "[MIN:]MAX"},
	} {
		m, err := ParseMain("f", []byte(c.text))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.text, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		n := m.NumaBalance
		if strings.Join(n.Processes, " ") != c.processes || strings.Join(n.Exclude, " ") != c.exclude || n.Min != time.Duration(c.min)*time.Second || n.Max != time.Duration(c.max)*time.Second ||
			n.On() != (c.processes != "") || n.All() != (c.processes == "all") {
			t.Errorf("%s: %+v", c.text, n)
		}
	}
}
