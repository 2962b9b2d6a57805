package postgresql

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

const (
	debianMain = "/etc/postgresql/15/main/postgresql.conf"
	debianData = "/var/lib/postgresql/15/main"
)

// server starts Debian's cluster 15/main; the test runs inside the root with the
// servers, which ends with all its processes.
func server(t *testing.T) *host.Host {
	t.Helper()
	if err := os.MkdirAll("/run/postgresql", 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "chown", "postgres:postgres", "/run/postgresql")
	// By default the server takes huge pages when there are some, and keeps them:
	// other tests make some, and want the number back to what it was.
	if conf, err := os.ReadFile(debianMain); err != nil {
		t.Fatal(err)
	} else if text := "huge_pages = off\n" + string(conf); !strings.HasPrefix(string(conf), "huge_pages") {
		if err := os.WriteFile(debianMain, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "pg_ctlcluster", "15", "main", "start")
	return host.Live()
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// sql asks with the distribution's own client.
func sql(t *testing.T, statement string) string {
	t.Helper()
	return run(t, "runuser", "-u", "postgres", "--", "/usr/lib/postgresql/15/bin/psql", "-XAtqc", statement, "postgres")
}

// TestPendingDefault: a line that is removed, and whose value was the default, waits for
// nothing; another one does.
func TestPendingDefault(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	if err := os.WriteFile("/etc/postgresql/15/main/conf.d/x.conf", []byte("max_worker_processes = 8\nmax_wal_senders = 9\nmax_prepared_transactions = 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := server(t)
	if err := os.WriteFile("/etc/postgresql/15/main/conf.d/x.conf", []byte("max_prepared_transactions = 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantSQL(t, "select pg_reload_conf()", "t")
	if !root.Eventually(time.Minute, func() bool {
		return sql(t, "select string_agg(name, ' ' order by name) from pg_settings where pending_restart") == "max_prepared_transactions max_wal_senders max_worker_processes"
	}) {
		t.Fatal(sql(t, "select name, setting, boot_val, pending_restart from pg_settings where name like 'max_w%'"))
	}
	all, err := Product.Find(t.Context(), h)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if got := all[0].Answer("pending_restart"); !reflect.DeepEqual(got.Value, []string{"max_prepared_transactions", "max_wal_senders"}) {
		t.Errorf("%+v", got)
	}
}

// nightly is the slow matrix: every start of a server takes seconds.
func nightly() bool { return os.Getenv("FETTLE_TEST_NIGHTLY") == "1" }

func engine(t *testing.T, h *host.Host) *tune.Engine {
	return &tune.Engine{
		Host: h, Kinds: setting.Kinds{"postgresql": Product.Kind(h)}, StateDir: filepath.Join(t.TempDir(), "state"),
		Main: profile.DefaultMain(), User: "test", Reason: t.Name(),
	}
}

func apply(e *tune.Engine, pairs ...string) (*tune.Applied, error) {
	var changes []setting.Change
	for i := 0; i < len(pairs); i += 2 {
		changes = append(changes, setting.Change{
			Setting: setting.Setting{Kind: "postgresql", Name: pairs[i]}, Want: setting.Text(pairs[i+1]), Reason: setting.Reason{Text: "test"},
		})
	}
	return e.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanChanges(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply})
}

func wantSQL(t *testing.T, statement, want string) {
	t.Helper()
	if got := sql(t, statement); got != want {
		t.Errorf("%s: %q, want %q", statement, got, want)
	}
}

func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if b, err := os.ReadFile(name); err != nil || string(b) != want {
		t.Errorf("%s is not as before (%v):\n%s", name, err, b)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Values that a running server takes at once and values for which it is started
// anew, through the journal and back.
func TestServer(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	h := server(t)
	before := readFile(t, debianMain)
	e := engine(t, h)

	a, err := apply(e, "15/main/work_mem", "9MB", "shared_buffers", "96MB", "maintenance_work_mem", "65536")
	if err != nil || a.Result != journal.ResultDone {
		t.Fatalf("%v, %+v", err, a)
	}
	if got := a.Plan.Activations(); len(got) != 1 || got[0].String() != "restart of postgresql "+debianMain {
		t.Errorf("the plan says %v", got)
	}
	wantSQL(t, "SHOW work_mem; SHOW shared_buffers; SHOW maintenance_work_mem", "9MB\n96MB\n64MB")

	started := sql(t, "SELECT pg_postmaster_start_time()")
	if a, err = apply(e, "work_mem", "10MB"); err != nil || a.Plan.Activations()[0].Restart {
		t.Fatalf("%v, %+v", err, a.Plan.Activations())
	}
	wantSQL(t, "SHOW work_mem", "10MB")
	wantSQL(t, "SELECT pg_postmaster_start_time()", started)

	// The same in another spelling is the same.
	if a, err = apply(e, "work_mem", "10240kB"); err != nil || a.Plan.Writes() != 0 {
		t.Errorf("10240kB for 10MB: %v, %+v", err, a)
	}

	if _, err := e.Undo(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantFile(t, debianMain, before)
	wantSQL(t, "SHOW work_mem", "4MB")
	wantSQL(t, "SHOW shared_buffers", "128MB")

	t.Run("refused", func(t *testing.T) { refused(t, e, before) })
	t.Run("killed", func(t *testing.T) { killed(t, h, before) })
	t.Run("auto", func(t *testing.T) { altered(t, e) })
	t.Run("asked", func(t *testing.T) { asked(t, h) })
	t.Run("archive", func(t *testing.T) { archived(t, h) })
}

// A value with which it does not start, or which it does not take, is rolled back
// and the server is up as before.
func refused(t *testing.T, e *tune.Engine, before string) {
	cases := [][2]string{
		{"listen_addresses", "203.0.113.7"}, // another machine's: all is well until it starts
		{"work_mem", "a lot"}, {"shared_buffers", "100TB"}, {"max_connections", "0"}, {"max_connections", "many of them"},
	}
	if !nightly() {
		cases = cases[:2]
	}
	for _, c := range cases {
		a, err := apply(e, c[0], c[1], "effective_cache_size", "3GB")
		var incomplete *tune.IncompleteError
		if err == nil || errors.As(err, &incomplete) || a.Result != journal.ResultRolledBack {
			t.Errorf("%s = %s: %v, %+v", c[0], c[1], err, a)
		}
		t.Log(err)
		wantFile(t, debianMain, before)
		wantSQL(t, "SHOW shared_buffers; SHOW max_connections; SHOW work_mem; SHOW effective_cache_size", "128MB\n100\n4MB\n4GB")
	}
	if _, err := e.Undo(context.Background()); !errors.Is(err, tune.ErrNothing) {
		t.Errorf("something is left: %v", err)
	}
}

// killedAt is the environment of a process of this test that is to be killed.
const killedAt = "FETTLE_TEST_KILLED_AT"

// TestKilledHere is that process.
func TestKilledHere(t *testing.T) {
	at := os.Getenv(killedAt)
	if at == "" {
		return
	}
	e := engine(t, host.Live())
	e.StateDir = os.Getenv("FETTLE_TEST_STATE")
	e.At = func(point string) {
		if strings.HasPrefix(point, at) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	_, err := apply(e, "shared_buffers", "97MB", "work_mem", "11MB")
	t.Fatalf("never at %s: %v", at, err)
}

// killed is kill -9 before and after each step: what begins next gives back the
// bytes, and the server runs with them.
func killed(t *testing.T, h *host.Host, before string) {
	type moment struct {
		at      string
		stopped bool // the server too, as it is between a stop and a start
	}
	moments := []moment{
		{"activate:restart of postgresql " + debianMain + ":before", true},
		{"activate:restart of postgresql " + debianMain + ":after", false},
		{"activate:restart of postgresql " + debianMain + ":before", false},
		{"write:postgresql:" + debianMain + "#shared_buffers:after", false},
		{"journal:stage:done", false},
		{"journal:commit:write", false},
		{"journal:commit:done", false},
	}
	if !nightly() {
		moments = moments[:2]
	}
	for _, c := range moments {
		e := engine(t, h)
		child := exec.Command("/proc/self/exe", "-test.run=^TestKilledHere$", "-test.v")
		child.Env = append(os.Environ(), killedAt+"="+c.at, "FETTLE_TEST_STATE="+e.StateDir)
		out, err := child.CombinedOutput()
		if s, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v\n%s", c.at, err, out)
		}
		if c.stopped {
			run(t, "pg_ctlcluster", "15", "main", "stop")
		}
		if _, err := e.Undo(context.Background()); err != nil {
			t.Errorf("%s: %v", c.at, err)
		}
		wantFile(t, debianMain, before)
		wantSQL(t, "SHOW shared_buffers; SHOW work_mem", "128MB\n4MB")
		if _, err := e.Undo(context.Background()); !errors.Is(err, tune.ErrNothing) {
			t.Errorf("%s: something is left: %v", c.at, err)
		}
	}
}

// What ALTER SYSTEM has set wins, and its line is the one that changes.
func altered(t *testing.T, e *tune.Engine) {
	sql(t, "ALTER SYSTEM SET work_mem = '6MB'")
	sql(t, "SELECT pg_reload_conf()")
	main, auto := readFile(t, debianMain), readFile(t, debianData+"/postgresql.auto.conf")
	if _, err := apply(e, "work_mem", "12MB"); err != nil {
		t.Fatal(err)
	}
	wantFile(t, debianMain, main)
	wantSQL(t, "SHOW work_mem", "12MB")
	if _, err := e.Undo(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantFile(t, debianData+"/postgresql.auto.conf", auto)
	wantSQL(t, "SHOW work_mem", "6MB")
	sql(t, "ALTER SYSTEM RESET work_mem")
	sql(t, "SELECT pg_reload_conf()")
}

// What fettle reads of a running server is what the server says.
func asked(t *testing.T, h *host.Host) {
	all, err := Product.Find(context.Background(), h)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	i := all[0]
	if i.Name() != "15/main" {
		t.Errorf("it is called %q", i.Name())
	}
	show := ""
	for _, p := range parameters {
		show += "SHOW " + p.Name + ";"
	}
	shown := strings.Split(sql(t, show), "\n")
	if len(shown) != len(parameters) {
		t.Fatalf("psql says %q", shown)
	}
	for n, p := range parameters {
		o := i.Option(p.Name)
		running, ok := o.Running.Get()
		if !ok {
			t.Errorf("%s: %s", p.Name, o.Running.Unknown())
			continue
		}
		if want := shown[n]; running != want {
			t.Errorf("%s runs with %q, psql says %q", p.Name, running, want)
		}
		got, err := p.Read(running)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if told, ok := o.File.Get(); ok && p.Name != "wal_buffers" {
			if file, err := p.Read(told); err != nil || !reflect.DeepEqual(file, got) {
				t.Errorf("%s is %v in %s and runs with %v (%v)", p.Name, file, o.File.Source(), got, err)
			}
		} else if p.Default != "" && p.Name != "wal_buffers" {
			if def, err := p.Read(p.Default); err != nil || !reflect.DeepEqual(def, got) {
				t.Errorf("%s is by default %v, and runs with %v (%v)", p.Name, def, got, err)
			}
		}
	}
	if v := i.Answer("version"); v.Value != sql(t, "SELECT split_part(current_setting('server_version'), ' ', 1)") {
		t.Errorf("version %+v", v)
	}
	for _, in := range inputs {
		if a := i.Answer(in.Name); a.Unknown != "" || a.Value == nil && in.Name != "memlock_bytes" { // its unit has no such limit
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	if v := i.Answer("data_bytes").Value.(float64); v < 10<<20 || v > 1<<30 {
		t.Errorf("%v bytes of data", v)
	}
	// A change without a reload is named.
	run(t, "sed", "-i", "s/^max_connections = 100/max_connections = 101/", debianMain)
	sql(t, "SELECT pg_reload_conf()")
	if !root.Eventually(time.Minute, func() bool {
		all, err := Product.Find(context.Background(), h)
		return err == nil && reflect.DeepEqual(all[0].Answer("pending_restart").Value, []string{"max_connections"})
	}) {
		t.Error("no restart is pending")
	}
	run(t, "sed", "-i", "s/^max_connections = 101/max_connections = 100/", debianMain)
	sql(t, "SELECT pg_reload_conf()")
}

// A recording has what the server said, and answers without it.
func archived(t *testing.T, h *host.Host) {
	sql(t, "ALTER SYSTEM SET archive_command = 'PGPASSWORD=s3cret cp %p /var/tmp'; ")
	sql(t, "SELECT pg_reload_conf()")
	recorder, recording := host.Record(h)
	if _, err := Product.Find(context.Background(), recorder); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	archive, err := host.ParseArchive("archive", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "s3cret") {
		t.Error("a password is in the recording")
	}
	all, err := Product.Find(context.Background(), archive)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if v, ok := all[0].Option("shared_buffers").Running.Get(); !ok || v != "128MB" {
		t.Errorf("the archive says %q, %s", v, all[0].Option("shared_buffers").Running.Unknown())
	}
}
