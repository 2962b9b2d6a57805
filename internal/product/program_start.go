package product

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/systemd"
)

// ByUnit returns a Control for a program that one unit runs, with Unit, Running and Start set. unit
// returns the unit for a main file.
func ByUnit(program string, unit func(h *host.Host, main string) (*systemd.Unit, error)) *Control {
	return &Control{
		Unit: func(h *host.Host, main string) string {
			if u, err := unit(h, main); err == nil {
				return u.Name
			}
			return ""
		},
		Running: func(ctx context.Context, h *host.Host, main string) (Process, error) {
			u, err := unit(h, main)
			if err != nil {
				return Process{}, err
			}
			return OfService(ctx, h, program, u.Name)
		},
		Start: func(h *host.Host, main string, _ Process) (Start, error) {
			u, err := unit(h, main)
			if err != nil {
				return Start{}, err
			}
			return OfUnit(h, u)
		},
	}
}

// Accepts returns an error if no program accepts a connection at an address.
func Accepts(ctx context.Context, network, address string) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Loopback returns the address at which this machine reaches a server that listens at address,
// which may mean every address.
func Loopback(address string) string {
	switch address {
	case "*", "", "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "::1"
	}
	return address
}

// OfUnit returns a unit's command with its environment, directory and user, for machines without a
// running systemd.
func OfUnit(h *host.Host, u *systemd.Unit) (Start, error) {
	argv, _ := u.Command()
	if len(argv) == 0 {
		return Start{}, fmt.Errorf("%s has no ExecStart=", u.Name)
	}
	s := Start{Argv: argv, Background: true}
	env, _ := u.Environment()
	for name, v := range env {
		s.Env = append(s.Env, name+"="+v.Text)
	}
	slices.Sort(s.Env)
	if v, ok := u.Last("Service", "WorkingDirectory"); ok {
		s.Dir = path.Clean("/" + strings.TrimPrefix(v.Text, "-"))
	}
	user, ok := u.Last("Service", "User")
	if !ok {
		return s, nil
	}
	as, err := userNamed(h, user.Text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", user.At, err)
	}
	s.UID, s.GID = int(as.UID), int(as.GID)
	return s, nil
}
