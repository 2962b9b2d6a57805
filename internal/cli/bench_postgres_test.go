package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/postgres"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// psql asks with the distribution's own client, and waits until the server has let it
// go: whoever looks next finds it among the connections otherwise.
func psql(t *testing.T, database, statement string) string {
	t.Helper()
	out, err := exec.Command("runuser", "-u", "postgres", "--", "/usr/lib/postgresql/15/bin/psql", "-XAtq", "-c", "SELECT pg_backend_pid()", "-c", statement, database).CombinedOutput()
	pid, answer, _ := strings.Cut(string(out), "\n")
	if err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
	await(t, "the end of process "+pid, func() bool { _, err := os.Stat("/proc/" + pid); return err != nil })
	return strings.TrimSpace(answer)
}

const databasesOfBenches = `SELECT coalesce(string_agg(datname, ' ' ORDER BY datname), '') FROM pg_database WHERE datname ~ '^fettle'`

// TestBenchPostgres: the ladder is climbed on a real server in a database that is
// dropped again, after Ctrl-C and by the next run after a kill -9 too; databases of
// others with such a name stay.
func TestBenchPostgres(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	state := filepath.Join(t.TempDir(), "state")
	command := func(args ...string) *exec.Cmd {
		return fettleCommand(t, append([]string{"--state-dir", state, "bench", "postgres"}, args...)...)
	}
	fettle := func(code int, args ...string) string {
		t.Helper()
		cmd := command(args...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exit %d, want %d: %s", args, got, code, out)
		}
		return string(out)
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("no %q in: %s", w, out)
			}
		}
	}
	says(fettle(1), "not running")
	for _, c := range []string{"mkdir -p /run/postgresql", "chown postgres:postgres /run/postgresql", "sed -i 1ihuge_pages=off /etc/postgresql/15/main/postgresql.conf", "pg_ctlcluster 15 main start"} {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", c, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("pg_ctlcluster", "15", "main", "stop", "-m", "immediate").Run() })

	cmd := command("--scale", "1", "--clients", "1,2,99", "--rounds", "2", "--step", "1s", "-o", "json")
	var talk strings.Builder
	cmd.Stderr = &talk
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, talk.String())
	}
	if err := validate(text); err != nil {
		t.Error(err)
	}
	var run evidence.Run
	var b postgres.Result
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	bodyValid(t, &run)
	if err := json.Unmarshal(run.Body, &b); err != nil {
		t.Fatal(err)
	}
	t.Log(run.Verdict)
	series, err := evidence.SeriesOf(&run)
	if err != nil || len(series) != 4 || series[0].Name != "postgres:tpcb-c1" || len(series[0].Samples) != 2 {
		t.Errorf("%+v %v", series, err)
	}
	if curves, err := evidence.CurvesOf(&run); err != nil || len(curves) != 2 {
		t.Errorf("%+v %v", curves, err)
	}
	for _, s := range b.Steps {
		// As many transactions at a time as there are clients (Little's law), of which
		// a busy machine may leave most idle; rounds that differ much have a middle that
		// belongs to none of them.
		if under := s.TPS * s.MeanS; s.TPS <= 0 || s.P99S < s.P50S || s.Spread < 0.2 && (under < 0.1*float64(s.Clients) || under > 1.3*float64(s.Clients)) {
			t.Errorf("%+v: %v under way", s, under)
		}
	}
	if len(b.Steps) != 2 || len(b.Failed) != 1 || b.Failed[0].Clients != 99 || b.Bytes < 10<<20 || !strings.Contains(b.InCache, "this measures memory and the log") {
		t.Errorf("%+v", b)
	}
	if got := psql(t, "postgres", databasesOfBenches); got != "" {
		t.Errorf("left behind: %s", got)
	}

	// As the work of an experiment, with a setting of the server as the change.
	prove := fettleCommand(t, "--state-dir", state, "prove", "--set", "postgresql:synchronous_commit=off", "--bench", "postgres:clients-2", "--budget", "1s", "--force")
	if out, err := prove.CombinedOutput(); err != nil {
		t.Errorf("prove: %v: %s", err, out)
	} else {
		says(string(out), "fettle bench postgres clients-2", "synchronous_commit: (absent) -> off", "ended by budget")
	}
	if got := psql(t, "postgres", databasesOfBenches); got != "" {
		t.Errorf("left behind: %s", got)
	}

	// A change that restarts the server is refused, unless this is said to be a test system.
	pid := psql(t, "postgres", "SELECT pg_postmaster_start_time()")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 4, "each switch is a restart of"},
		{[]string{"--test-system", name + "x"}, 4, "this machine is " + name},
		{[]string{"--test-system", name}, 0, "at least 9 restarts of each program"},
	} {
		args := append([]string{"--state-dir", state, "prove", "--set", "postgresql:max_worker_processes=9", "--bench", "postgres:clients-2", "--budget", "1s", "--force"}, x.args...)
		cmd := fettleCommand(t, args...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != x.code || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), x.says) {
			t.Errorf("%v: exit %d: %s", x.args, code, out)
		}
		if same := pid == psql(t, "postgres", "SELECT pg_postmaster_start_time()"); same != (x.code != 0) {
			t.Errorf("%v: restarted: %v", x.args, !same)
		}
	}

	// A product that does not run reads no file, so there is nothing to measure.
	stopped := fettleCommand(t, "--state-dir", state, "prove", "--set", "redis:maxmemory=100mb", "--force", "--", "true")
	if out, _ := stopped.CombinedOutput(); stopped.ProcessState.ExitCode() != 1 || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), "no running program reads") {
		t.Errorf("exit %d: %s", stopped.ProcessState.ExitCode(), out)
	}

	begun := func(args ...string) *exec.Cmd {
		t.Helper()
		cmd := command(append([]string{"--scale", "1", "--clients", "2", "--step", "10m"}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "pgbench at work", func() bool {
			return psql(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fettle bench'") >= "2"
		})
		return cmd
	}
	cmd = begun()
	says(fettle(4, "--scale", "1"), "another fettle bench is using database")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d after Ctrl-C", code)
	}
	if got := psql(t, "postgres", databasesOfBenches); got != "" {
		t.Errorf("left behind after Ctrl-C: %s", got)
	}
	cmd = begun()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await(t, "pgbench to have ended with fettle", func() bool {
		return psql(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE datname ~ '^fettle_bench'") == "0"
	})
	if got := psql(t, "postgres", databasesOfBenches); !strings.HasPrefix(got, "fettle_bench_") {
		t.Errorf("after a kill -9: %q", got)
	}
	psql(t, "postgres", "CREATE DATABASE fettle_bench_of_mine")
	says(fettle(0, "--scale", "1", "--clients", "1", "--rounds", "1", "--step", "1s", "--read-only"), "of a killed benchmark", "fettle_bench_of_mine has a name like those of fettle's databases but lacks fettle's comment", "that only read", "this measures memory")
	if got := psql(t, "postgres", databasesOfBenches); got != "fettle_bench_of_mine" {
		t.Errorf("left behind: %s", got)
	}

	says(fettle(4, "--scale", "90000"), "more than a quarter of the free space")
	says(fettle(2, "--scale", "0"), "--scale")
	says(fettle(2, "--top", "5"), "--top needs --tables")
	says(fettle(2, "--pgbench", "/nonexistent"), "--pgbench: program /nonexistent not found")
	t.Run("a step fails", func(t *testing.T) {
		fake := filepath.Join(t.TempDir(), "pgbench")
		text := "#!/bin/sh\ncase \"$*\" in *'-c 2 '*) echo 'pgbench: error: out of memory' >&2; exit 2;; esac\nexec /usr/lib/postgresql/15/bin/pgbench \"$@\"\n"
		if err := os.WriteFile(fake, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		for dir := filepath.Dir(fake); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil { // the server's user has to reach it
				t.Fatal(err)
			}
		}
		says(fettle(0, "--pgbench", fake, "--scale", "1", "--clients", "1,2", "--rounds", "1", "--step", "1s"), "2 clients: pgbench failed with exit code 2: pgbench: error: out of memory", "with 1 client,")
		says(fettle(1, "--pgbench", fake, "--scale", "1", "--clients", "2", "--rounds", "1", "--step", "1s"), "no step could be measured")
	})
	if got := psql(t, "postgres", databasesOfBenches); got != "fettle_bench_of_mine" {
		t.Errorf("left behind: %s", got)
	}

	says(fettle(1, "--tables"), "no database foreman, candlepin, pulpcore")
	psql(t, "postgres", "CREATE DATABASE foreman")
	psql(t, "foreman", "CREATE TABLE logs AS SELECT generate_series(1, 50000) AS id; CREATE INDEX ON logs (id); CREATE TABLE hosts (id int); ANALYZE")
	says(fettle(0, "--tables"), "table of foreman", "public.logs", "50000")
	var list PostgresTables
	out, err := command("--tables", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(out); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal(out, &list); err != nil || len(list.Databases) != 1 {
		t.Fatalf("%s, %v", out, err)
	}
	if got := list.Databases[0].Tables; len(got) != 2 || got[0].Name != "public.logs" || got[0].IndexBytes < 1<<20 || !slices.IsSortedFunc(got, func(a, b postgres.Table) int { return int(b.Bytes - a.Bytes) }) {
		t.Errorf("%+v", got)
	}

	hold := exec.Command("runuser", "-u", "postgres", "--", "/usr/lib/postgresql/15/bin/psql", "-XAtqc", "SELECT pg_sleep(600)", "foreman")
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Process.Kill(); _ = hold.Wait() })
	await(t, "a client", func() bool {
		return psql(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE datname = 'foreman'") == "1"
	})
	says(fettle(4, "--scale", "1"), "15/main has 1 other client connected")
}
