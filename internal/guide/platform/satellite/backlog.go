package satellite

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/product/redis"
)

// tasks counts the unfinished tasks of hosts (Actions::Katello::Host::*).
type tasks struct {
	Pending float64 `json:"pending"`
	Hour    float64 `json:"hour"`     // those started more than an hour ago
	OldestS float64 `json:"oldest_s"` // age of the oldest
	unknown string
	at      string
}

// askTasks is the query for the counts. Rails stores times in UTC without a zone; scheduled tasks
// have not started.
const askTasks = `SELECT json_build_object(
  'pending', count(*),
  'hour', count(*) FILTER (WHERE begun < now() - interval '1 hour'),
  'oldest_s', coalesce(extract(epoch FROM greatest(max(now() - begun), interval '0')), 0))
FROM (SELECT started_at AT TIME ZONE 'UTC' AS begun FROM foreman_tasks_tasks
  WHERE label LIKE 'Actions::Katello::Host::%' AND state <> 'stopped') AS of_hosts`

// hostTasks queries the database, once.
func (s *satellite) hostTasks() tasks {
	if s.tasks != nil {
		return *s.tasks
	}
	t := tasks{at: "foreman_tasks_tasks"}
	s.tasks = &t
	switch local := s.databaseLocal(); {
	case local.Unknown != "":
		t.unknown = local.Unknown
		return t
	case local.Value == false:
		t.unknown = "the database is on another machine"
		return t
	}
	name := "foreman"
	if v, _, f := s.production("database"); v.text != "" {
		name = v.text
	} else if f.unknown != "" {
		t.unknown = f.unknown
		return t
	}
	b, err := postgresql.Query(s.ctx, s.host, "tasks of hosts", name, askTasks)
	switch {
	case host.Unknown(err):
		t.unknown = "these tasks are only in Foreman's database; run fettle check or fettle facts --output archive as root on the machine itself"
	case err != nil:
		t.unknown = "the database " + name + ": " + err.Error()
	default:
		if err := json.Unmarshal(b, &t); err != nil {
			t.unknown = "the database " + name + ": " + err.Error()
		}
	}
	return t
}

// pendingTasks answers with the number of tasks, from the database or from a sosreport's copy of
// the table.
func (s *satellite) pendingTasks() fact.Answer {
	const table = "/sos_commands/foreman/foreman_tasks_tasks"
	if _, err := s.host.Files.Stat(table); s.host.Live || err != nil {
		return s.ofTasks(func(t tasks) float64 { return t.Pending })
	}
	text, _, err := s.host.Tail(table, 64<<20)
	if err != nil {
		return fact.Answer{Unknown: s.why(table, err), At: table}
	}
	n, last, err := pending(string(text))
	switch {
	case err != nil:
		return fact.Answer{Unknown: fmt.Sprintf("%s: %v", table, err), At: table}
	case last > 0:
		return fact.Answer{Value: float64(n), At: table + ":" + strconv.Itoa(last)}
	}
	return fact.Answer{Value: float64(n), At: table}
}

func (s *satellite) ofTasks(pick func(tasks) float64) fact.Answer {
	t := s.hostTasks()
	if t.unknown != "" {
		return fact.Answer{Unknown: t.unknown, At: t.at}
	}
	return fact.Answer{Value: pick(t), At: t.at}
}

func (s *satellite) oldTasks() fact.Answer {
	return s.ofTasks(func(t tasks) float64 { return t.Hour })
}

func (s *satellite) oldestTask() fact.Answer {
	return s.ofTasks(func(t tasks) float64 { return t.OldestS })
}

// pending counts unfinished tasks Actions::Katello::Host::*. It also returns the line number of
// the last one.
func pending(text string) (n, last int, err error) {
	r := csv.NewReader(bufio.NewReader(strings.NewReader(text)))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	head, err := r.Read()
	if err != nil {
		return 0, 0, fmt.Errorf("not a table of tasks: %w", err)
	}
	label, state := slices.Index(head, "label"), slices.Index(head, "state")
	if label < 0 || state < 0 {
		return 0, 0, fmt.Errorf("not a table of tasks: its columns are %.80q", head)
	}
	for {
		row, err := r.Read()
		if err != nil {
			break // the end, or truncated
		}
		if len(row) > max(label, state) && strings.HasPrefix(row[label], "Actions::Katello::Host::") && row[state] != "stopped" {
			n++
			last, _ = r.FieldPos(label)
		}
	}
	return n, last, nil
}

// queueSet is the set of Sidekiq queues in which Dynflow's steps wait.
const queueSet = "satellite.queue"

const settingsFile = "/etc/foreman/settings.yaml"

// defaultRedis is the address of Dynflow's queues that the installer sets (puppet-foreman,
// manifests/config.pp).
const defaultRedis = "redis://localhost:6379/6"

// queues queries Redis, once.
func (s *satellite) queues() (all []redis.Queue, unknown string) {
	if s.queued != nil {
		return s.queued, ""
	}
	if s.noQueues != "" {
		return nil, s.noQueues
	}
	address := defaultRedis
	if e, f := s.yaml(settingsFile); f.unknown != "" {
		s.noQueues = f.unknown
		return nil, s.noQueues
	} else if v, ok := e[":dynflow/:redis_url"]; ok {
		address = v.text
	}
	all, err := redis.Queues(s.ctx, s.host, address)
	switch {
	case host.Unknown(err):
		s.noQueues = "the queues are only in Redis; run fettle check or fettle facts --output archive as root on the machine itself"
	case err != nil:
		s.noQueues = "the queues of Sidekiq: " + err.Error()
	default:
		s.queued = append([]redis.Queue{}, all...)
	}
	return s.queued, s.noQueues
}

func (s *satellite) queueNames() (names []string, unknown string) {
	switch p := s.find(); {
	case p.unknown != "":
		return nil, p.unknown
	case p.role != "server":
		return nil, ""
	}
	all, unknown := s.queues()
	for _, q := range all {
		names = append(names, q.Name)
	}
	return names, unknown
}

// ofQueue returns a function that answers with a figure of a queue.
func ofQueue(pick func(redis.Queue) fact.Answer) func(*satellite, string) fact.Answer {
	return func(s *satellite, name string) fact.Answer {
		all, unknown := s.queues()
		if i := slices.IndexFunc(all, func(q redis.Queue) bool { return q.Name == name }); i >= 0 {
			a := pick(all[i])
			a.At = "queue:" + name + " in Redis"
			return a
		}
		return fact.Answer{Unknown: unknown}
	}
}

func queueLength(q redis.Queue) fact.Answer { return fact.Answer{Value: float64(q.Length)} }

func queueOldest(q redis.Queue) fact.Answer {
	if q.OldestS < 0 {
		return fact.Answer{Unknown: "the next job of the queue has no enqueue time"}
	}
	return fact.Answer{Value: q.OldestS}
}
