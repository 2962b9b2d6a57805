package satellite

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// environment is the environment of a unit's processes.
type environment struct {
	values  map[string]systemd.Value
	unknown string
}

func (s *satellite) environment(name string) environment {
	if e, ok := s.envs[name]; ok {
		return e
	}
	var e environment
	u, err := s.units.Load(name)
	switch {
	case err == nil:
		var unread string
		if e.values, unread = u.Environment(); unread != "" {
			e.unknown = s.why(unread, host.NotRecorded(unread))
		}
	case !errors.Is(err, fs.ErrNotExist):
		e.unknown = err.Error()
	}
	s.envs[name] = e
	return e
}

// pumaOption returns a function that answers with an option of Foreman's Puma.
func pumaOption(option string) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		switch all, unknown := s.subject.Items("puma"); {
		case unknown != "":
			return fact.Answer{Unknown: unknown}
		case !slices.Contains(all, "foreman"):
			return fact.Answer{At: "foreman.service"}
		}
		return s.subject.Answer("puma.foreman." + option)
	}
}

func (s *satellite) databaseLocal() fact.Answer {
	p := s.find()
	switch {
	case p.unknown != "":
		return fact.Answer{Unknown: p.unknown}
	case p.role == "":
		return fact.Answer{}
	case p.role == "capsule":
		f := s.read("/etc/pulp/settings.py")
		if !f.exists {
			return f.answer()
		}
		host, line := pulpDatabase(f.text)
		return s.isLocal(entry{host, line}, f, line > 0)
	}
	v, ok, f := s.production("host")
	if !f.exists || f.unknown != "" {
		return f.answer()
	}
	return s.isLocal(v, f, ok)
}

// pulpDatabase returns the database host in Pulp's settings, a Python file. line is 0 if there is
// none.
func pulpDatabase(text string) (host string, line int) {
	n := 0
	for row := range strings.Lines(text) {
		n++
		if strings.HasPrefix(strings.TrimSpace(row), "#") {
			continue
		}
		if m := pulpHost().FindStringSubmatch(row); m != nil {
			host, line = m[1], n
		}
	}
	return host, line
}

var pulpHost = text.LazyRegexp(`["']HOST["']\s*:\s*["']([^"']*)["']`)

// isLocal answers whether a database is on this machine; a database without a host uses a socket.
func (s *satellite) isLocal(v entry, f file, named bool) fact.Answer {
	if !named || v.text == "" {
		return fact.Answer{Value: true, At: f.path}
	}
	local := []string{"localhost", "127.0.0.1", "::1", "localhost.localdomain"}
	if name, ok := s.subject.Facts().Lookup("os.hostname"); ok {
		if name, ok := name.Value.(string); ok {
			local = append(local, name)
		}
	}
	return fact.Answer{Value: strings.HasPrefix(v.text, "/") || slices.Contains(local, v.text), At: f.at(v.line)}
}

// workerSet is the set of Dynflow units that start at boot, by instance.
const workerSet = "satellite.dynflow_unit"

// dynflowUnits returns the instances of Dynflow: orchestrator, worker-1,
// worker-hosts-queue-1.
func (s *satellite) dynflowUnits() (names []string, unknown string) {
	names, unknown = s.subject.Items("dynflow")
	if len(names) == 0 && unknown == "" {
		// A copy without signs of the product has no units; on a Satellite they are unknown.
		if _, err := s.units.Enabled("dynflow-sidekiq@*.service"); err != nil {
			unknown = s.why("/etc/systemd/system", err)
		}
	}
	return names, unknown
}

func (s *satellite) concurrency(name string) fact.Answer {
	return s.subject.Answer("dynflow." + name + ".concurrency")
}

// isWorker matches the units that serve any queue: worker, worker-1.
var isWorker = text.LazyRegexp(`^worker(-\d+)?$`)

func (s *satellite) dynflowWorkers() fact.Answer {
	names, unknown := s.dynflowUnits()
	n := 0.0
	for _, name := range names {
		if isWorker().MatchString(name) {
			n++
		}
	}
	return fact.Answer{Value: n, Unknown: unknown, At: "/etc/systemd/system"}
}

func (s *satellite) dynflowCount() fact.Answer {
	names, unknown := s.dynflowUnits()
	return fact.Answer{Value: float64(len(names)), Unknown: unknown, At: "/etc/systemd/system"}
}

func (s *satellite) dynflowThreads() fact.Answer {
	names, unknown := s.dynflowUnits()
	sum := 0.0
	for _, name := range names {
		a := s.concurrency(name)
		n, ok := a.Value.(float64)
		if !ok {
			return fact.Answer{Unknown: cmp.Or(a.Unknown, "/etc/foreman/dynflow/"+name+".yml does not set concurrency"), At: a.At}
		}
		sum += n
	}
	return fact.Answer{Value: sum, Unknown: unknown, At: "/etc/foreman/dynflow"}
}

func (s *satellite) pulpWorkers() fact.Answer {
	units, err := s.units.Enabled("pulpcore-worker@*.service")
	if err != nil {
		return fact.Answer{Unknown: s.why("/etc/systemd/system", err)}
	}
	return fact.Answer{Value: float64(len(units)), At: "/etc/systemd/system"}
}

// executor returns a function that answers with a variable of Dynflow's executor. Since Satellite
// 6.8 it is in the units, before in a file of /etc/sysconfig.
func executor(name string, kind fact.Type) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		names, unknown := s.dynflowUnits()
		for _, w := range names {
			e := s.environment("dynflow-sidekiq@" + w + ".service")
			if v, ok := e.values[name]; ok {
				return platform.Typed(v.Text, kind, v.At)
			}
			unknown = cmp.Or(unknown, e.unknown)
		}
		for _, p := range []string{"/etc/sysconfig/dynflowd", "/etc/sysconfig/foreman-tasks"} {
			f := s.read(p)
			all := systemd.EnvironmentFile(f.text)
			for i := len(all) - 1; i >= 0; i-- {
				if all[i].Name == name {
					return platform.Typed(all[i].Value, kind, f.at(all[i].Line))
				}
			}
		}
		return fact.Answer{Unknown: unknown}
	}
}

// candlepinHeap answers with the last -Xmx in Tomcat's JAVA_OPTS, which is the one that Java uses.
func (s *satellite) candlepinHeap() fact.Answer {
	f := s.read("/etc/tomcat/tomcat.conf")
	if !f.exists {
		return f.answer()
	}
	all := systemd.EnvironmentFile(f.text)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name != "JAVA_OPTS" {
			continue
		}
		words := strings.Fields(all[i].Value)
		for w := len(words) - 1; w >= 0; w-- {
			if size, ok := strings.CutPrefix(words[w], "-Xmx"); ok {
				return platform.Typed(size, fact.Bytes, f.at(all[i].Line))
			}
		}
		break
	}
	return fact.Answer{At: f.path}
}

// openFiles returns a function that answers with the open-files limit of a service's process, or
// else of its unit.
func openFiles(name string) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		u, err := s.units.Load(name)
		switch {
		case host.Unknown(err):
			return s.openFilesOfProcess(name)
		case errors.Is(err, fs.ErrNotExist):
			return fact.Answer{}
		case err != nil:
			return fact.Answer{Unknown: err.Error()}
		case u.Masked:
			return fact.Answer{}
		}
		if l, ok, err := u.Running("Max open files"); ok && err == nil {
			return limit(l)
		}
		if l, ok := u.Limit("NOFILE"); ok {
			return limit(l)
		}
		if u.Partial {
			return fact.Answer{Unknown: "the file of " + name + " is not in this copy"}
		}
		// systemd's default since RHEL 7.
		return fact.Answer{Value: 1024.0, At: "systemd's default for " + name}
	}
}

// openFilesOfProcess is like openFiles, but for a copy that lacks the unit. The answer is absent if
// the service neither starts at boot nor runs.
func (s *satellite) openFilesOfProcess(name string) fact.Answer {
	program := strings.TrimSuffix(name, ".service")
	pids, all := s.processes(program)
	if len(pids) > 0 {
		l, err := systemd.LimitOf(s.host, pids[0], "Max open files")
		if err != nil {
			return fact.Answer{Unknown: "unknown with which limits " + program + " runs: " + err.Error()}
		}
		return limit(l)
	}
	if enabled, err := s.units.Enabled(name); all && err == nil && len(enabled) == 0 {
		return fact.Answer{At: "/etc/systemd/system"}
	}
	return fact.Answer{Unknown: name + " is not in this copy"}
}

// maxName is the number of bytes of a program's name that the kernel keeps (TASK_COMM_LEN).
const maxName = 15

// processes returns the PIDs of a program, sorted. all is false if the copy has no processes.
func (s *satellite) processes(program string) (pids []string, all bool) {
	list, err := s.host.PIDs()
	if err != nil {
		return nil, false
	}
	for _, n := range list {
		pid := strconv.Itoa(n)
		comm, err := s.host.Files.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			continue // ended, or a thread of a recorded process
		}
		all = true
		if strings.TrimSpace(string(comm)) == program[:min(len(program), maxName)] {
			pids = append(pids, pid)
		}
	}
	return pids, all
}

func limit(l systemd.Limit) fact.Answer {
	if math.IsInf(l.Soft, 1) {
		l.Soft = 1 << 30 // more than the kernel allows a process (fs.nr_open)
	}
	return fact.Answer{Value: l.Soft, At: l.At}
}

// withoutQpidd reports whether the machine has no qpidd, so that qpidd's files are irrelevant.
func (s *satellite) withoutQpidd() bool {
	a := openFiles("qpidd.service")(s)
	return a.Value == nil && a.Unknown == ""
}

// mgmtPubInterval answers with the interval in qpidd.conf: NAME=VALUE, where "_" equals "-".
func (s *satellite) mgmtPubInterval() fact.Answer {
	if s.withoutQpidd() {
		return fact.Answer{}
	}
	f := s.read("/etc/qpid/qpidd.conf")
	a := f.answer()
	f.lines(func(n int, text string) {
		key, v, ok := strings.Cut(text, "=")
		if ok && strings.ReplaceAll(strings.TrimSpace(key), "_", "-") == "mgmt-pub-interval" {
			a = platform.Typed(strings.TrimSpace(v), fact.Number, f.at(n))
		}
	})
	if f.exists && a.At == f.path && a.Value == nil {
		a.Value = 10.0 // qpidd's default, in seconds
	}
	return a
}

// symbol returns the name of a Ruby symbol in YAML: :ssh, :'pull-mqtt'. It returns other text
// unchanged.
func symbol(text string) string {
	name, ok := strings.CutPrefix(text, ":")
	if !ok {
		return text
	}
	if q := strings.Trim(name, `"'`); len(q)+2 == len(name) {
		return q
	}
	return name
}

// remoteExecution returns a function that answers with a setting of the proxy's plug-in. Its file
// has had two names.
func remoteExecution(key string) func(*satellite) fact.Answer {
	kind := fact.Number
	if key == ":mode" {
		kind = fact.Text
	}
	return func(s *satellite) fact.Answer {
		var last fact.Answer
		for _, name := range []string{"remote_execution_script.yml", "remote_execution_ssh.yml"} {
			e, f := s.yaml("/etc/foreman-proxy/settings.d/" + name)
			if v, ok := e[":enabled"]; ok && v.text == "false" {
				continue
			}
			if last = value(e, f, key, kind); last.Value != nil {
				if text, ok := last.Value.(string); ok {
					last.Value = symbol(text)
				}
				return last
			}
		}
		return last
	}
}
