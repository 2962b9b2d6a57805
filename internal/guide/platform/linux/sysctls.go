package linux

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/setting"
)

// sysctls provides each key that sysctl.d and other files set: the running value, and the files'
// value in systemd-sysctl's order.
var sysctls = platform.Source{
	Prefix: "sysctls",
	Sets:   []string{"sysctls"},
	Inputs: inputs("sysctls",
		fact.Input{Name: "*.claimed", Type: fact.Text, Doc: "the value of the line that takes effect"},
		fact.Input{Name: "*.running", Type: fact.Text, Doc: "the present value of the kernel"},
		fact.Input{Name: "*.same", Type: fact.Truth, Doc: "whether the claimed and the running value are equal, as the kernel prints values"},
		fact.Input{Name: "*.by", Type: fact.Text, Doc: "the mechanism that sets the value: sysctl.d, kernel command line, kubelet, ..."},
		fact.Input{Name: "*.administrator", Type: fact.Truth, Doc: "whether an administrator's file sets the value, not a package"},
		fact.Input{Name: "*.losers", Type: fact.List, Doc: "FILE:LINE of overridden lines that set other values"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		claims := s.Claims()
		if unread := claims.Unread(override.Sysctl); len(unread) > 0 {
			// Any line in it may be the last for its key.
			t.Rest(unread[0].String())
			return t
		}
		missing := first(claims.Unknown(), "sysctl")
		for _, id := range claims.Sysctls(s.Host.Files) {
			all := claims.For(id)
			winner, ok := override.Winner(all)
			if !ok || winner.Value.Absent {
				continue
			}
			give := func(input string, value any) { t.Give("sysctls."+id.Name+"."+input, value, winner.Place()) }
			t.Add("sysctls", id.Name)
			give("claimed", winner.Value.Text)
			give("by", string(winner.Source))
			give("administrator", winner.Administrator)
			losers := []string{}
			for _, c := range all {
				if c.Place() != winner.Place() && !s.Kinds.Equal(id, c.Value, winner.Value) {
					losers = append(losers, c.Place())
				}
			}
			give("losers", losers)
			compare(s, t, id, winner, missing)
		}
		if names, _ := t.Items("sysctls"); len(names) == 0 && missing != "" {
			t.Rest(missing + " is not in this copy")
		}
		return t
	},
}

// compare answers with the running value, and whether it equals the winner's. A key that the kernel
// lacks is absent. If a copy lacks a directory, a difference is unknown; equality can hardly be chance.
func compare(s *platform.Subject, t *platform.Known, id setting.Setting, winner override.Claim, missing string) {
	running, same := "sysctls."+id.Name+".running", "sysctls."+id.Name+".same"
	answer := s.Read(id.String(), fact.Text)
	t.Put(answer, running)
	text, ok := answer.Value.(string)
	switch {
	case answer.Unknown != "":
		t.Put(answer, same)
	case !ok: // the kernel lacks the key
	case s.Kinds.Equal(id, setting.Text(text), setting.Text(winner.Value.Text)):
		t.Give(same, true, winner.Place())
	case missing != "":
		t.Unclear(same, winner.Place(), fmt.Sprintf("%s sets %q, but %s is not in this copy", winner.Place(), winner.Value.Text, missing))
	default:
		t.Give(same, false, winner.Place())
	}
}

// first returns the first path that contains a word, or "".
func first(paths []string, word string) string {
	if i := slices.IndexFunc(paths, func(p string) bool { return strings.Contains(p, word) }); i >= 0 {
		return paths[i]
	}
	return ""
}
