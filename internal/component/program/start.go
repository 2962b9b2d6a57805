package program

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/component/unit"
	"fettle.dev/fettle/internal/host"
)

// OfUnit is the call that a service's unit makes: its command line, environment,
// directory and user, for where no systemd runs that could.
func OfUnit(h *host.Host, u *unit.Unit) (Start, error) {
	argv, _ := u.Command()
	if len(argv) == 0 {
		return Start{}, fmt.Errorf("%s does not say how it is started", u.Name)
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
	text, err := h.Files.ReadFile("/etc/passwd")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) < 4 || f[0] != user.Text {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err := errors.Join(err1, err2); err != nil {
			return s, fmt.Errorf("/etc/passwd: %s: %w", user.Text, err)
		}
		s.UID, s.GID = uid, gid
		return s, nil
	}
	return s, fmt.Errorf("%s: there is no user %s", user.At, user.Text)
}
