// Package proofs makes the records of docs/proofs: real experiments with real products,
// on the machine that it runs on. `make experiments` runs it; it takes an hour and a half
// at the most, and wants a machine that does nothing else.
package proofs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// out is where records go, as a root's inside sees it.
const out = "/proofs"

// asked skips unless the experiments are asked for: a test of every day keeps the
// records and their pages together (internal/measure/page).
func asked(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("FETTLE_PROOFS") != "1" {
		t.Skip("makes real experiments for more than an hour; make experiments")
	}
	root.Disposable(t)
}

// records is the directory of the records on this machine: docs/proofs, or for a trial
// another one, FETTLE_PROOFS_DIR.
func records(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FETTLE_PROOFS_DIR")
	if dir == "" {
		dir = "../../docs/proofs"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// inside runs the calling test in a root with the products, and is true in there. more
// adds to what the root has.
func inside(t *testing.T, live bool, more func(*root.Options)) bool {
	t.Helper()
	if _, err := os.Stat(out); err == nil {
		return root.Inside(t, root.Options{})
	}
	dir := records(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := root.Options{Servers: true, Live: live, Env: []string{"FETTLE_PROOFS=1"}, Binds: []root.Bind{{Source: dir, Target: out}}}
	for _, name := range []string{"FETTLE_PROOFS_BUDGET", "FETTLE_PROOFS_SECONDS"} {
		o.Env = append(o.Env, name+"="+os.Getenv(name))
	}
	for _, pkg := range []string{"./cmd/fettle", "./test/proofs/access", "./test/proofs/registrations"} {
		o.Binds = append(o.Binds, root.Bind{Source: root.Program(t, pkg), Target: "/usr/local/bin/" + filepath.Base(pkg), ReadOnly: true})
	}
	if more != nil {
		more(&o)
	}
	return root.Inside(t, o)
}

// prove makes an experiment and keeps its record under a name. It goes on where the
// noise of the machine puts the margin out of reach: an effect may be larger.
func prove(t *testing.T, name string, args ...string) {
	t.Helper()
	budget := os.Getenv("FETTLE_PROOFS_BUDGET")
	if budget == "" {
		budget = "8m"
	}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"prove", "--output", "json", "--force", "--test-system", machine, "--margin", "5%", "--budget", budget}, args...)
	cmd := exec.Command("fettle", args...)
	var said strings.Builder
	cmd.Stderr = &said
	answer, err := cmd.Output()
	t.Logf("fettle %s\n%s", strings.Join(args, " "), said.String())
	var r evidence.Run
	if jsonErr := json.Unmarshal(answer, &r); jsonErr != nil || r.ID == "" {
		t.Fatalf("%v, %v", err, jsonErr)
	}
	t.Log(r.Verdict)
	record, err := exec.Command("fettle", "runs", "export", r.ID).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, name+".json"), record, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTHP: transparent huge pages for all, under random reads of memory for which
// they were not requested (the RHEL 6 slides).
func TestTHP(t *testing.T) {
	asked(t)
	if !inside(t, true, nil) {
		return
	}
	prove(t, "thp", "--set", "sysfs:/sys/kernel/mm/transparent_hugepage/enabled=always", "--metric", "read=([0-9.]+) ns", "--unit", "ns", "--", "access")
}

// TestReadAhead: read-ahead of 128 KiB, which is the kernel's default, against what this
// machine has, under a stream of small reads through the page cache.
func TestReadAhead(t *testing.T) {
	asked(t)
	if !inside(t, true, func(o *root.Options) {
		disk := product.Command(t, "sh", "-c", "lsblk -ndo PKNAME,KNAME $(findmnt -no SOURCE -T "+t.TempDir()+") | awk '{print $1}'")
		o.Binds = append(o.Binds, root.Bind{Source: t.TempDir(), Target: "/srv"})
		o.Env = append(o.Env, "FETTLE_PROOFS_DISK="+strings.TrimSpace(disk))
	}) {
		return
	}
	prove(t, "read-ahead", "--set", "sysfs:/sys/block/"+os.Getenv("FETTLE_PROOFS_DISK")+"/queue/read_ahead_kb=128", "--bench", "disk:buffered-read@/srv")
}

// TestPostgreSQL: larger shared buffers, with more room between checkpoints (Satellite 6.12 Tuning
// Guide, 5.7).
func TestPostgreSQL(t *testing.T) {
	asked(t)
	if !inside(t, false, nil) {
		return
	}
	product.Database(t, 100)
	prove(t, "postgresql-buffers", "--set", "postgresql:shared_buffers=1GB", "--set", "postgresql:max_wal_size=8GB", "--set", "postgresql:checkpoint_completion_target=0.9", "--bench", "postgres:clients-4")
}

// TestPostgreSQLCommit: a commit that does not wait for the log to be on the disk
// (PostgreSQL's documentation, 20.5.1; the Satellite 6.12 Tuning Guide, 5.7, has the log's other
// settings).
func TestPostgreSQLCommit(t *testing.T) {
	asked(t)
	if !inside(t, false, nil) {
		return
	}
	product.Database(t, 100)
	prove(t, "postgresql-commit", "--set", "postgresql:synchronous_commit=off", "--bench", "postgres:clients-4")
}

// puma repeats an experiment of the Satellite 6.12 Tuning Guide, 5.2.4 (threads with the workers as
// they are, workers with the threads as they are) on the cores of this machine, with registrations
// of hosts as the load. What is compared with is what that chapter recommends for the fewest cores:
// as many workers as cores, of 16 threads.
func puma(t *testing.T, name string, change ...string) {
	asked(t)
	if !inside(t, false, nil) {
		return
	}
	product.Database(t, 200)
	product.Write(t, "foreman", product.Numbers(2, 16, 16))
	product.StartPuma(t, "foreman")
	var args []string
	for _, c := range change {
		args = append(args, "--set", "puma:foreman/"+c)
	}
	prove(t, name, append(args, "--metric", "rate=([0-9.]+) registrations/s", "--unit", "1/s", "--", "registrations", "-n", "10000")...)
}

func TestPuma1Worker(t *testing.T)   { puma(t, "puma-1-worker", "workers=1") }
func TestPuma3Workers(t *testing.T)  { puma(t, "puma-3-workers", "workers=3") }
func TestPuma4Workers(t *testing.T)  { puma(t, "puma-4-workers", "workers=4") }
func TestPuma4Threads(t *testing.T)  { puma(t, "puma-4-threads", "threads_min=4", "threads_max=4") }
func TestPuma8Threads(t *testing.T)  { puma(t, "puma-8-threads", "threads_min=8", "threads_max=8") }
func TestPuma32Threads(t *testing.T) { puma(t, "puma-32-threads", "threads_min=32", "threads_max=32") }
