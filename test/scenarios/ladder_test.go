package scenarios

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// climbed is what the ladder printed.
type climbed struct {
	Day     string `json:"day"`
	Load    string `json:"load"` // average of 15 minutes before
	Command string `json:"command"`
	Output  string `json:"output"`
}

// TestLadder searches how many hosts the stand-in for Foreman registers at a time without one that
// needs 3 s or more, and with FETTLE_PROOFS=1 adds the output to the record (make experiments).
func TestLadder(t *testing.T) {
	root.Nightly(t, "searches for minutes")
	root.Undisturbed(t)
	if !inside(t, withProofs(t)) {
		return
	}
	database(t)
	foreman(t, puma{0, 2, 2})
	args := []string{"load", "scenario", "registration", "--server", "foreman=" + foremanURL, "--organization", "Default", "--prefix", "t-",
		"--ladder", "2..1000", "--expect", "host max < 3s", "--observe", "local"}
	c := climbed{Day: time.Now().UTC().Format(time.DateOnly), Load: strings.Fields(product.Read(t, "/proc/loadavg"))[2],
		Command: "fettle load scenario registration --ladder 2..1000 --expect 'host max < 3s' --observe local"}
	cmd := exec.Command("fettle", args...)
	cmd.Env = append(os.Environ(), "SATELLITE_CREDENTIALS=YWRtaW46Y2hhbmdlbWU=", "ACTIVATION_KEY=load")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	c.Output = strings.TrimSpace(string(out))
	if !strings.Contains(c.Output, "stand-in") || !strings.Contains(c.Output, "without failure: ") {
		t.Error("not the answer of a search on a stand-in")
	}
	if n := product.SQL(t, "foreman", "SELECT count(*) FROM hosts"); n != "0" {
		t.Errorf("%s hosts are left", n)
	}
	if _, err := os.Stat(proofs); err != nil {
		return
	}
	var r record
	if err := json.Unmarshal([]byte(product.Read(t, filepath.Join(proofs, recordFile))), &r); err != nil {
		t.Fatal(err)
	}
	r.Ladder = &c
	r.write(t)
}
