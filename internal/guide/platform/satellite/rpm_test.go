package satellite

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// rpm is a machine's rpm, and counts how often it was asked.
type rpm struct {
	host.Exec
	asked int
}

func (x *rpm) Run(context.Context, host.Command) (host.Result, error) {
	x.asked++
	return host.Result{Stdout: []byte("6.16.2\tsatellite\n3.12.0\tforeman\n")}, nil
}

// Which Satellite a machine with RPM packages is, rpm says, once; of a machine that
// is certainly none it is not asked.
func TestRPM(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		asked int
		want  answers
	}{
		{"a Satellite", map[string]string{"var/lib/rpm/rpmdb.sqlite": "x", "etc/foreman/": "", "etc/foreman-proxy/": ""}, 1, answers{"version": "6.16.2", "foreman_version": "3.12.0", "role": "server"}},
		{"another machine", map[string]string{"var/lib/rpm/rpmdb.sqlite": "x", "etc/": ""}, 0, answers{"version": absent, "role": absent}},
	} {
		h := machine.Mounted(t, c.files)
		x := &rpm{Exec: h.Exec}
		h.Exec = x
		s := subject(t, h)
		check(t, s, c.want)
		s.Answer("puppetserver.version")
		if x.asked != c.asked {
			t.Errorf("%s: rpm was asked %d times", c.name, x.asked)
		}
	}
}
