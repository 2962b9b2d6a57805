package satellite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// tasksTable has the columns of Foreman 3.12 (foreman-tasks 10).
const tasksTable = `CREATE TABLE foreman_tasks_tasks (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), type varchar NOT NULL, label varchar, started_at timestamp(6), ended_at timestamp(6), state varchar NOT NULL,
  result varchar NOT NULL, external_id varchar, parent_task_id uuid, start_at timestamp(6), start_before timestamp(6), action varchar, user_id integer,
  state_updated_at timestamp(6));
INSERT INTO foreman_tasks_tasks (type, label, state, result, started_at) VALUES
  ('D', 'Actions::Katello::Host::UploadProfiles', 'running', 'pending', (now() AT TIME ZONE 'UTC') - interval '5 minutes'),
  ('D', 'Actions::Katello::Host::UploadPackageProfile', 'paused', 'error', (now() AT TIME ZONE 'UTC') - interval '2 hours'),
  ('D', 'Actions::Katello::Host::Hypervisors', 'planned', 'pending', (now() AT TIME ZONE 'UTC') - interval '26 hours'),
  ('D', 'Actions::Katello::Host::Register', 'scheduled', 'pending', NULL),
  ('D', 'Actions::Katello::Host::Register', 'stopped', 'success', (now() AT TIME ZONE 'UTC') - interval '90 hours'),
  ('D', 'Actions::Katello::Repository::Sync', 'running', 'pending', (now() AT TIME ZONE 'UTC') - interval '50 hours')`

// The backlog of a real PostgreSQL and a real Redis, as a Satellite has them.
func TestBacklog(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	for name, text := range map[string]string{
		"/var/lib/dpkg/status":                    product.Read(t, "/var/lib/dpkg/status") + "\nPackage: satellite\nStatus: install ok installed\nVersion: 6.16.1-1\n\n",
		"/etc/foreman/database.yml":               "production:\n  adapter: postgresql\n  database: foreman\n  password: s3cret\n",
		"/etc/foreman/settings.yaml":              "---\n:dynflow:\n  :redis_url: redis://localhost:6379/6\n",
		"/etc/postgresql/15/main/conf.d/our.conf": "huge_pages = off\nfsync = off\ntimezone = 'America/New_York'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	product.Command(t, "install", "-d", "-o", "postgres", "-g", "postgres", "/run/postgresql")
	product.Command(t, "pg_ctlcluster", "15", "main", "start")
	t.Cleanup(func() { product.Command(t, "pg_ctlcluster", "15", "main", "stop", "-m", "immediate") })
	psql := func(database, statement string) {
		t.Helper()
		product.Command(t, "runuser", "-u", "postgres", "--", "psql", "-Xqc", statement, database)
	}
	psql("postgres", "CREATE DATABASE foreman")
	psql("foreman", tasksTable)

	product.Command(t, "install", "-d", "-o", "redis", "/run/redis")
	product.Command(t, "setpriv", "--reuid=redis", "--regid=redis", "--init-groups", "redis-server", "/etc/redis/redis.conf")
	cli := func(words ...string) string {
		t.Helper()
		return product.Command(t, append([]string{"redis-cli", "-n", "6"}, words...)...)
	}
	product.Eventually(t, "Redis answers", func() bool {
		out, err := exec.Command("redis-cli", "ping").Output() // fails until it listens
		return err == nil && strings.Contains(string(out), "PONG")
	})
	stopped := false
	stop := func() {
		if !stopped {
			product.Command(t, "redis-cli", "shutdown", "nosave")
		}
		stopped = true
	}
	t.Cleanup(stop)
	cli("sadd", "queues", "default", "hosts_queue", "dynflow_orchestrator")
	for _, age := range []time.Duration{1800, 60, 1} { // as Sidekiq: new ones on the left
		cli("lpush", "queue:default", fmt.Sprintf(`{"class":"Dynflow","args":[{"password":"s3cret"}],"enqueued_at":%d.25}`, time.Now().Add(-age*time.Second).Unix()))
	}
	cli("lpush", "queue:hosts_queue", fmt.Sprintf(`{"enqueued_at":%d}`, time.Now().UnixMilli()))
	cli("rpush", "queue:of_another", "no queue of Sidekiq")

	recorder, recording := host.Record(host.Live())
	backlog(t, subject(t, recorder))
	var text strings.Builder
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "s3cret") {
		t.Error("the recording has a password")
	}
	archive, err := host.ParseArchive("archive", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	backlog(t, subject(t, archive))

	stop()
	psql("foreman", "ALTER TABLE foreman_tasks_tasks RENAME TO gone")
	s := subject(t, host.Live())
	if _, why := s.Items("satellite.queue"); !strings.Contains(why, "the queues of Sidekiq: not running") {
		t.Errorf("without Redis: %q", why)
	}
	if a := s.Answer("satellite.pending_host_tasks"); !strings.Contains(a.Unknown, `relation "foreman_tasks_tasks" does not exist`) {
		t.Errorf("without the table: %+v", a)
	}
}

func backlog(t *testing.T, s *platform.Subject) {
	t.Helper()
	check(t, s, answers{"pending_host_tasks": 4, "pending_host_tasks_hour": 2, "queue.default.length": 3, "queue.hosts_queue.length": 1, "queue.dynflow_orchestrator.length": 0, "queue.dynflow_orchestrator.oldest": 0})
	names, why := s.Items("satellite.queue")
	if want := []string{"default", "dynflow_orchestrator", "hosts_queue"}; !reflect.DeepEqual(names, want) {
		t.Errorf("queues %q, %s", names, why)
	}
	for name, least := range map[string]float64{"oldest_host_task": 26 * 3600, "queue.default.oldest": 1799, "queue.hosts_queue.oldest": 0} {
		if a := s.Answer("satellite." + name); a.Value == nil || a.Value.(float64) < least || a.Value.(float64) > least+1200 {
			t.Errorf("%s: %+v, want %v and the time of the test", name, a, least)
		}
	}
}
