package proofs

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cpu is the processor time that the process has taken, to a hundredth of a second.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name is in parentheses and may hold anything; from the state on there are words
	// (proc_pid_stat(5)): utime is the 14th of all and stime the 15th.
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return ticks(t, words[11], words[12])
}

// busy is what all processors of the machine have worked, and what the hypervisor took of
// them (proc_stat(5)).
func busy(t *testing.T) (worked, stolen time.Duration) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	w := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal ...
	return ticks(t, w[1], w[2], w[3], w[6], w[7]), ticks(t, w[8])
}

func ticks(t *testing.T, words ...string) (sum time.Duration) {
	t.Helper()
	for _, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			t.Fatalf("processor time of %q: %v", w, err)
		}
		sum += time.Duration(n) * time.Second / 100
	}
	return sum
}

// nginxSaw is how many connections and requests nginx has had, this one included.
func nginxSaw(t *testing.T, c *http.Client) (connections, requests int64) {
	t.Helper()
	answer, err := c.Get("http://" + nginxCounts + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var active, handled int64
	if _, err := fmt.Sscanf(string(text), "Active connections: %d \nserver accepts handled requests\n %d %d %d", &active, &connections, &handled, &requests); err != nil {
		t.Fatalf("nginx says %q: %v", text, err)
	}
	return connections, requests
}

// counters are those of a proxy of HAProxy, by its names of them.
type counters map[string]int64

// handshakes are those of TLS, and how many of them took up a session: HAProxy counts whole
// ones and these apart.
func (c counters) handshakes() (all, resumed int64) {
	return c["ssl_sess"] + c["ssl_reused_sess"], c["ssl_reused_sess"]
}

// haproxySaw are the counters of HAProxy's frontends and back ends ("show stat").
func haproxySaw(t *testing.T) map[string]counters {
	t.Helper()
	conn, err := net.Dial("unix", statsSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const frontends, backEnds = 1, 2
	if _, err := fmt.Fprintf(conn, "show stat -1 %d -1\n", frontends|backEnds); err != nil {
		t.Fatal(err)
	}
	table := csv.NewReader(conn)
	table.FieldsPerRecord = -1
	rows, err := table.ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("show stat: %v, %q", err, rows)
	}
	all := map[string]counters{}
	for _, row := range rows[1:] {
		c := counters{}
		for i, name := range rows[0] {
			if i >= len(row) {
				break
			}
			if n, err := strconv.ParseInt(row[i], 10, 64); err == nil {
				c[name] = n
			}
		}
		all[row[0]] = c
	}
	return all
}
