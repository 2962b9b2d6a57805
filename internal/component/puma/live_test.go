package puma

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/component/producttest"
	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/testroot"
)

const (
	app        = "/srv/register"
	dropIn     = "/etc/systemd/system/foreman.service.d/installer.conf"
	configFile = app + "/config/puma/production.rb"
)

// application registers hosts in PostgreSQL as Foreman does: each thread of each
// worker has a connection, which it makes when the worker starts.
const application = `require "pg"
require "json"

POOL = Queue.new
Puma.cli_config.options[:max_threads].times do
  POOL << PG.connect(dbname: "register", host: "/run/postgresql")
end

run(lambda do |env|
  db = POOL.pop
  begin
    case [env["REQUEST_METHOD"], env["PATH_INFO"]]
    when ["POST", "/register"]
      host = JSON.parse(env["rack.input"].read)
      id = db.exec_params("INSERT INTO hosts (name) VALUES ($1) RETURNING id", [host.fetch("name")])[0]["id"]
      [201, {"Content-Type" => "application/json"}, [JSON.generate(id: Integer(id))]]
    when ["GET", "/"]
      [200, {"Content-Type" => "text/plain"}, [db.exec("SELECT count(*) FROM hosts")[0]["count"]]]
    else
      [404, {}, []]
    end
  ensure
    POOL << db
  end
end)
`

// foremanConfig asks the environment as Foreman's configuration does.
const foremanConfig = `worker_check_interval 1
# The default is "0, 16".
threads ENV.fetch('FOREMAN_PUMA_THREADS_MIN', 0).to_i, ENV.fetch('FOREMAN_PUMA_THREADS_MAX', 16).to_i
workers ENV.fetch('FOREMAN_PUMA_WORKERS', 2).to_i
state_path File.join(__dir__, '../../tmp/puma.state')
activate_control_app 'unix://' + File.expand_path('../../tmp/pumactl.sock', __dir__)
bind ENV.fetch('FOREMAN_BIND', 'tcp://127.0.0.1:3000')
`

const (
	service = "[Unit]\nDescription=Foreman\n[Service]\nType=notify\nUser=www-data\nWorkingDirectory=" + app + "\n" +
		"ExecStart=/usr/bin/puma --environment $FOREMAN_ENV --tag foreman\nEnvironment=FOREMAN_ENV=production\nEnvironment=FOREMAN_BIND=unix://" + app + "/tmp/app.sock\n"
	override = "# written by the installer\n[Service]\nEnvironment=FOREMAN_PUMA_THREADS_MIN=2\nEnvironment=FOREMAN_PUMA_THREADS_MAX=4\n" +
		"Environment=\"FOREMAN_PUMA_WORKERS=2\"  \n\n[Install]\n"
)

func sql(t *testing.T, database, statement string) string {
	t.Helper()
	return producttest.Command(t, "runuser", "-u", "postgres", "--", "psql", "-XAtqc", statement, database)
}

// database starts Debian's PostgreSQL for 20 connections.
func database(t *testing.T) {
	t.Helper()
	producttest.Command(t, "install", "-d", "-o", "postgres", "-g", "postgres", "/run/postgresql")
	hosttest.Write(t, "/", map[string]string{"/etc/postgresql/15/main/conf.d/test.conf": "max_connections = 20\nhuge_pages = off\nfsync = off\n"})
	producttest.Command(t, "pg_ctlcluster", "15", "main", "start")
	t.Cleanup(func() { producttest.Command(t, "pg_ctlcluster", "15", "main", "stop", "-m", "immediate") })
	sql(t, "postgres", `CREATE ROLE "www-data" LOGIN`)
	sql(t, "postgres", `CREATE DATABASE register OWNER "www-data"`)
	producttest.Command(t, "runuser", "-u", "www-data", "--", "psql", "-Xqc", "CREATE TABLE hosts (id serial PRIMARY KEY, name text UNIQUE)", "register")
}

// serve starts the application as its unit says.
func serve(t *testing.T) *producttest.Bench {
	t.Helper()
	hosttest.Write(t, "/", map[string]string{
		app + "/config.ru": application, configFile: foremanConfig, "/usr/lib/systemd/system/foreman.service": service, dropIn: override,
	})
	producttest.Command(t, "install", "-d", "-o", "www-data", app+"/tmp")
	long := time.Now().Add(-time.Hour) // a process is told from its files by times of a hundredth of a second
	if err := os.Chtimes(configFile, long, long); err != nil {
		t.Fatal(err)
	}
	producttest.Command(t, "sh", "-c", `cd `+app+` && FOREMAN_BIND=unix://`+app+`/tmp/app.sock FOREMAN_PUMA_THREADS_MIN=2 FOREMAN_PUMA_THREADS_MAX=4 FOREMAN_PUMA_WORKERS=2 \
		setsid setpriv --reuid=www-data --regid=www-data --init-groups puma --environment production --tag foreman </dev/null >/tmp/puma.log 2>&1 &`)
	b := producttest.New(t, Product)
	t.Cleanup(func() {
		if i := b.Installed().(*installed); i.run != nil {
			producttest.Command(t, "kill", "-s", "KILL", fmt.Sprint(i.run.Process.PID))
		}
	})
	producttest.Eventually(t, "both workers serve", func() bool {
		return b.Installed().Answer("threads_running").Value == 4.0 && answers(t.Context(), []string{"unix://" + app + "/tmp/app.sock"}) == nil
	})
	return b
}

// register asks as a host does, and wants to be taken.
func register(t *testing.T, host string) {
	t.Helper()
	got := producttest.Command(t, "curl", "-sS", "--max-time", "30", "--unix-socket", app+"/tmp/app.sock", "-o", "/dev/null", "-w", "%{http_code}", "-d", `{"name": "`+host+`"}`, "http://localhost/register")
	if got != "201" {
		t.Errorf("registering %s: %s", host, got)
	}
}

// says is what Puma's own tool says of the running server.
func says(t *testing.T) (workers, threads int) {
	t.Helper()
	var s struct {
		Workers int `json:"workers"`
		Status  []struct {
			Last struct {
				Max int `json:"max_threads"`
			} `json:"last_status"`
		} `json:"worker_status"`
	}
	producttest.Eventually(t, "each worker has reported", func() bool {
		text := producttest.Command(t, "pumactl", "-S", app+"/tmp/puma.state", "stats")
		if err := json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):]), &s); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		workers, threads = s.Workers, 0
		for _, w := range s.Status {
			if threads = w.Last.Max; threads == 0 {
				return false
			}
		}
		return true
	})
	return workers, threads
}

// Workers and threads of a Puma that Foreman's unit sets up, through the journal
// and back, while hosts register.
func TestForeman(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	if !testroot.Inside(t, testroot.Options{Servers: true}) {
		return
	}
	database(t)
	b := serve(t)
	register(t, "one.example.com")
	asked(t, b)

	b.Set([]string{"restart of puma " + dropIn}, "workers", "3", "foreman/threads_max", "5", "FOREMAN_PUMA_THREADS_MIN", "5")
	want := strings.NewReplacer("WORKERS=2", "WORKERS=3", "MIN=2", "MIN=5", "MAX=4", "MAX=5").Replace(override)
	producttest.Same(t, dropIn, want)
	register(t, "two.example.com")
	if workers, threads := says(t); workers != 3 || threads != 5 {
		t.Errorf("Puma says %d workers of %d threads", workers, threads)
	}
	b.Running("workers", "3")
	b.Running("threads_min", "5")
	b.Running("threads_max", "5")
	b.Undo()
	producttest.Same(t, dropIn, override)
	producttest.Same(t, configFile, foremanConfig)
	b.Running("workers", "2")
	b.Running("threads_min", "2")
	b.Running("threads_max", "4")
	register(t, "three.example.com")

	t.Run("refused", func(t *testing.T) {
		b := *b
		b.TB = t
		pid := b.Installed().(*installed).run.Process.PID
		b.Refused("9 threads at least and 4 at most (it was told nothing)", "threads_min", "9")
		b.Refused("want a whole number", "workers", "many")
		b.Refused("want a number from 0 to 1000", "workers", "1001")
		b.Refused("no Puma takes its workers or threads from", "FOREMAN_ENV", "7")
		hosttest.Write(t, "/", map[string]string{configFile: foremanConfig + "threads (1, 2\n"})
		b.Refused(configFile+" is not what Ruby can read", "workers", "1")
		hosttest.Write(t, "/", map[string]string{configFile: foremanConfig})
		if got := b.Installed().(*installed).run.Process.PID; got != pid {
			t.Errorf("process %d, was %d", got, pid)
		}
		// The database has connections for four workers; the others end as they start.
		b.Refused("its workers do not stay", "workers", "6")
		producttest.Same(t, dropIn, override)
		b.Running("workers", "2")
		register(t, "four.example.com")
	})
	if got := sql(t, "register", "SELECT string_agg(name, ' ' ORDER BY id) FROM hosts"); got != "one.example.com two.example.com three.example.com four.example.com" {
		t.Errorf("registered: %s", got)
	}
}

// asked holds what is read against what Puma says.
func asked(t *testing.T, b *producttest.Bench) {
	t.Helper()
	i := b.Installed()
	workers, threads := says(t)
	for option, want := range map[string]string{"workers": fmt.Sprint(workers), "threads_max": fmt.Sprint(threads), "threads_min": "2"} {
		o := i.Option(option)
		if file, ok := o.File.Get(); !ok || file != want || !strings.HasPrefix(o.File.Source(), dropIn+":") {
			t.Errorf("%s is %q in %s (%s)", option, file, o.File.Source(), o.File.Unknown())
		}
		b.Running(option, want)
	}
	if i.Name() != "foreman" {
		t.Errorf("it is called %q", i.Name())
	}
	for input, want := range map[string]any{"version": "5.6.5", "workers_serving": 2.0, "threads_running": 4.0, "backlog": 0.0} {
		if a := i.Answer(input); a.Value != want {
			t.Errorf("%s: %+v, want %v", input, a, want)
		}
	}
	if a := i.Answer("pending_changes"); len(a.Value.([]string)) > 0 {
		t.Errorf("pending: %+v", a)
	}
	if v, ok := b.Archived().Option("workers").Running.Get(); !ok || v != "2" {
		t.Errorf("the archive says %q", v)
	}
	// A change that nobody has told it of.
	hosttest.Write(t, "/", map[string]string{dropIn: strings.Replace(override, "WORKERS=2", "WORKERS=4", 1)})
	if a := b.Installed().Answer("pending_changes"); fmt.Sprint(a.Value) != "[workers]" {
		t.Errorf("pending: %+v", a)
	}
	hosttest.Write(t, "/", map[string]string{dropIn: override})
}
