// register is a small application for tests: it registers hosts in Debian's PostgreSQL. It runs
// on Puma, set up by a unit like Foreman's. Only tests import it.

package product

import (
	"fmt"
	"os"
	"path"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/text"
)

// Dir is the application's directory, and Config its Puma configuration.
const (
	Dir    = "/srv/register"
	Config = Dir + "/config/puma/production.rb"
	socket = Dir + "/tmp/app.sock"
)

// application registers hosts as Foreman does: each thread of each worker has a connection,
// which it opens when the worker starts.
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

// ForemansConfig reads the environment as Foreman's configuration does.
const ForemansConfig = `worker_check_interval 1
# The default is "0, 16".
threads ENV.fetch('FOREMAN_PUMA_THREADS_MIN', 0).to_i, ENV.fetch('FOREMAN_PUMA_THREADS_MAX', 16).to_i
workers ENV.fetch('FOREMAN_PUMA_WORKERS', 2).to_i
state_path File.join(__dir__, '../../tmp/puma.state')
activate_control_app 'unix://' + File.expand_path('../../tmp/pumactl.sock', __dir__)
bind ENV.fetch('FOREMAN_BIND', 'tcp://127.0.0.1:3000')
`

const service = "[Unit]\nDescription=Foreman\n[Service]\nType=notify\nUser=www-data\nWorkingDirectory=" + Dir + "\n" +
	"ExecStart=/usr/bin/puma --environment $FOREMAN_ENV --tag foreman\nEnvironment=FOREMAN_ENV=production\nEnvironment=FOREMAN_BIND=unix://" + socket + "\n"

// DropIn returns the file of a unit to which an installer has written the numbers.
func DropIn(unit string) string { return "/etc/systemd/system/" + unit + ".service.d/installer.conf" }

// Numbers returns the text of a DropIn.
func Numbers(workers, least, most int) string {
	return fmt.Sprintf("# written by the installer\n[Service]\nEnvironment=FOREMAN_PUMA_THREADS_MIN=%d\nEnvironment=FOREMAN_PUMA_THREADS_MAX=%d\n"+
		"Environment=\"FOREMAN_PUMA_WORKERS=%d\"  \n\n[Install]\n", least, most, workers)
}

// SQL runs a statement as the database's administrator and returns the result.
func SQL(t testing.TB, database, statement string) string {
	t.Helper()
	return Command(t, "runuser", "-u", "postgres", "--", "psql", "-XAtqc", statement, database)
}

// Database starts Debian's PostgreSQL with the given number of connections, and creates the
// table of hosts.
func Database(t testing.TB, connections int) {
	t.Helper()
	Command(t, "install", "-d", "-o", "postgres", "-g", "postgres", "/run/postgresql")
	machine.Write(t, "/", map[string]string{"/etc/postgresql/15/main/conf.d/test.conf": fmt.Sprintf("max_connections = %d\nhuge_pages = off\nfsync = off\n", connections)})
	Command(t, "pg_ctlcluster", "15", "main", "start")
	t.Cleanup(func() { Command(t, "pg_ctlcluster", "15", "main", "stop", "-m", "immediate") })
	SQL(t, "postgres", `CREATE ROLE "www-data" LOGIN`)
	SQL(t, "postgres", `CREATE DATABASE register OWNER "www-data"`)
	Command(t, "runuser", "-u", "www-data", "--", "psql", "-Xqc", "CREATE TABLE hosts (id serial PRIMARY KEY, name text UNIQUE)", "register")
}

// Write installs the application as a unit with its DropIn: "foreman" as from a package, others
// as an administrator's own. They are removed with the test.
func Write(t testing.TB, unit, numbers string) {
	t.Helper()
	file := "/etc/systemd/system/" + unit + ".service"
	if unit == "foreman" {
		file = "/usr/lib/systemd/system/foreman.service"
	}
	machine.Write(t, "/", map[string]string{Dir + "/config.ru": application, Config: ForemansConfig, file: service, DropIn(unit): numbers})
	t.Cleanup(func() { os.Remove(file); os.RemoveAll(path.Dir(DropIn(unit))) })
	Command(t, "install", "-d", "-o", "www-data", Dir+"/tmp")
	// Times of a hundredth of a second decide whether a file is older than a process.
	Command(t, "touch", "-d", "1 hour ago", Config)
}

var number = text.LazyRegexp(`(?m)^Environment="?([A-Z_]+=[0-9]+)`)

// StartPuma starts the application as its unit and DropIn specify, and waits until it answers.
// It ends with the test.
func StartPuma(t testing.TB, unit string) {
	t.Helper()
	env := "FOREMAN_BIND=unix://" + socket
	for _, m := range number().FindAllStringSubmatch(Read(t, DropIn(unit)), -1) {
		env += " " + m[1]
	}
	Command(t, "sh", "-c", "cd "+Dir+" && "+env+" setsid setpriv --reuid=www-data --regid=www-data --init-groups "+
		"puma --environment production --tag foreman </dev/null >/tmp/puma.log 2>&1 &")
	t.Cleanup(func() {
		// By now fettle may have started another process.
		Command(t, "sh", "-c", `for p in $(pgrep -f '^puma'); do if [ /proc/$p/root/ -ef / ]; then kill -s KILL "$p"; fi; done`)
	})
	Eventually(t, "the application answers", func() bool {
		return Command(t, "sh", "-c", "curl -sf --max-time 30 --unix-socket "+socket+" -o /dev/null http://localhost/ && echo yes || true") == "yes"
	})
}

// Register sends a host's request, and expects it to succeed.
func Register(t testing.TB, host string) {
	t.Helper()
	got := Command(t, "curl", "-sS", "--max-time", "30", "--unix-socket", socket, "-o", "/dev/null", "-w", "%{http_code}", "-d", `{"name": "`+host+`"}`, "http://localhost/register")
	if got != "201" {
		t.Errorf("registering %s: %s", host, got)
	}
}
