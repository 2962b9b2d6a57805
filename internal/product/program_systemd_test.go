package product

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// programSystemd plays a machine on which web.service runs process 7, or what show says
// of it, and its programs.
type programSystemd struct {
	load, active  string
	main          int
	reload        string
	restarts      int
	exit          int    // of systemctl restart and reload
	log           string // of its processes
	told          []string
	running       Process
	settledReason error
}

func (s *programSystemd) exec(c host.Command) host.Result {
	if c.Argv[0] == "journalctl" {
		if c.Argv[1] == "--sync" {
			return host.Result{}
		}
		return host.Result{Stdout: []byte(s.log)}
	}
	switch c.Argv[1] {
	case "show":
		return host.Result{Stdout: fmt.Appendf(nil, "LoadState=%s\nActiveState=%s\nMainPID=%d\nCanReload=%s\nNRestarts=%d\n", s.load, s.active, s.main, s.reload, s.restarts)}
	case "restart":
		if s.exit == 0 {
			s.running.PID++
		}
	}
	s.told = append(s.told, strings.Join(c.Argv[1:], " "))
	return host.Result{ExitCode: s.exit, Stderr: []byte("Job for web.service failed because of X.\nSee \"systemctl status web.service\".\n")}
}

// control is one of that machine.
func control(t *testing.T, s *programSystemd) (*Control, *host.Host) {
	h := machine.Mounted(t, map[string]string{"/run/systemd/system/": ""})
	h.Live = true
	h.Exec = &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"systemctl": s.exec, "journalctl": s.exec}}
	return &Control{
		Name:  "web",
		Unit:  func(*host.Host, string) string { return "web.service" },
		Mains: func(*host.Host) ([]string, error) { return []string{"/etc/web"}, nil },
		Running: func(context.Context, *host.Host, string) (Process, error) {
			if s.running.PID == 0 {
				return Process{}, ErrStopped
			}
			return s.running, nil
		},
		Reload: ReloadBy("HUP"),
		Ready:  func(context.Context, *host.Host, string) error { return s.settledReason },
	}, h
}

// What a unit cannot be told is an error before anything is told, and the way back
// tells nothing either.
func TestUnitThatCannotBeTold(t *testing.T) {
	well := programSystemd{load: "loaded", active: "active", main: 7, reload: "yes", running: Process{PID: 7, Parent: 1, Unit: "web.service"}}
	for name, c := range map[string]struct {
		change  func(*programSystemd)
		restart bool
		want    string // of the error; "" for none
		told    string
	}{
		"restart":        {nil, true, "", "reset-failed -- web.service, restart -- web.service"},
		"reload":         {nil, false, "", "reload -- web.service"},
		"a shell's":      {func(s *programSystemd) { s.main, s.running.Parent = 6, 6 }, true, "", "reset-failed -- web.service, restart -- web.service"},
		"no main one":    {func(s *programSystemd) { s.main = 0 }, true, "", "reset-failed -- web.service, restart -- web.service"},
		"masked":         {func(s *programSystemd) { s.load = "masked" }, true, "web.service is masked", ""},
		"gone":           {func(s *programSystemd) { s.load = "not-found" }, true, "systemd cannot load web.service (not-found)", ""},
		"cron's":         {func(s *programSystemd) { s.main, s.running.Unit = 5, "cron.service" }, true, "cron.service runs process 5", ""},
		"a user's":       {func(s *programSystemd) { s.running.Unit = "user@1000.service" }, true, "a user's systemd", ""},
		"no ExecReload=": {func(s *programSystemd) { s.reload = "no" }, false, "cannot reload", ""},
		"is stopped":     {func(s *programSystemd) { s.running = Process{}; s.active, s.main = "inactive", 0 }, false, "", ""},
		"is started":     {func(s *programSystemd) { s.running = Process{}; s.active, s.main = "inactive", 0 }, true, "", "reset-failed -- web.service, restart -- web.service"},
		"is masked too":  {func(s *programSystemd) { s.running = Process{}; s.load, s.active, s.main = "masked", "inactive", 0 }, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := well
			if c.change != nil {
				c.change(&s)
			}
			k, h := control(t, &s)
			a := setting.Activation{Program: k.name(h, "/etc/web", s.running), Restart: c.restart}
			err := k.Activate(t.Context(), h, a)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "(neither reloaded nor restarted)")) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if got := strings.Join(s.told, ", "); got != c.told {
				t.Errorf("told %q, want %q", got, c.told)
			}
			if c.want != "" {
				if err := k.Activate(t.Context(), h, a); err != nil || len(s.told) > 0 {
					t.Errorf("on the way back: %v, told %q", err, s.told)
				}
			}
		})
	}
}

// A service that is being stopped is not started again.
func TestBeingStopped(t *testing.T) {
	for active, want := range map[string]bool{"active": true, "deactivating": false} {
		s := &programSystemd{load: "loaded", active: active, main: 7, running: Process{PID: 7, Unit: "web.service"}}
		k, h := control(t, s)
		if a, ok := k.Activation(t.Context(), h, "/etc/web", true); ok != want || ok && a.Program != "web.service" {
			t.Errorf("%s: %v, %v", active, a, ok)
		}
	}
}

// What does not start says why itself, not where one could look; what systemd has
// given up, or starts again and again, is not waited for.
func TestServiceThatDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		s    programSystemd
		want string
	}{
		"says so":           {programSystemd{exit: 1, log: "reading\nbad value\n"}, "systemctl restart web.service: exit 1: bad value"},
		"says nothing":      {programSystemd{exit: 1}, "systemctl restart web.service: exit 1: Job for web.service failed because of X."},
		"fails later":       {programSystemd{active: "failed", log: "bad value\n", settledReason: errors.New("not yet")}, "web.service has failed: bad value"},
		"starts for ever":   {programSystemd{active: "activating", restarts: 3, settledReason: errors.New("not yet")}, "web.service has failed"},
		"only takes a time": {programSystemd{active: "active"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.s
			s.load, s.main, s.running = "loaded", 7, Process{PID: 7, Unit: "web.service"}
			k, h := control(t, &s)
			err := k.Activate(t.Context(), h, setting.Activation{Program: "web.service", Restart: true})
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestUnitOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/redis-server.service\n":                                                                 "redis-server.service",
		"0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n":                                   "postgresql@15-main.service",
		"12:cpu:/x.service\n1:name=systemd:/system.slice/httpd.service\n0::/y.service\n":                          "httpd.service",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/redis.service\n":                              "user@1000.service",
		"0::/user.slice/user-0.slice/session-3.scope\n":                                                           "",
		"0::/system.slice/containerd.service/kubepods/pod1\n":                                                     "containerd.service",
		"11:memory:/system.slice/rh-redis5-redis.service\n1:name=systemd:/system.slice/rh-redis5-redis.service\n": "rh-redis5-redis.service",
	} {
		if got := unitOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
