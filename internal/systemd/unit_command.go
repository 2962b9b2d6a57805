package systemd

import (
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Command returns the arguments of a service's last ExecStart=, with specifiers
// and variables replaced as in systemd.service(5), "Command lines", and its
// location FILE:LINE; nil if there is none.
func (u *Unit) Command() (argv []string, at string) {
	all := u.All("Service", "ExecStart")
	if len(all) == 0 {
		return nil, ""
	}
	last := all[len(all)-1]
	words, _ := split(last.Text)
	if len(words) == 0 {
		return nil, last.At
	}
	name := strings.TrimLeft(words[0], "-@:+!|")
	prefix := words[0][:len(words[0])-len(name)]
	words[0] = name
	if strings.Contains(prefix, "@") && len(words) > 1 { // the second word is argv[0]
		words = append(words[:1], words[2:]...)
	}
	env, _ := u.Environment()
	for _, w := range words {
		w = u.expand(w)
		if strings.Contains(prefix, ":") {
			argv = append(argv, w)
			continue
		}
		if m := wholeVariable().FindStringSubmatch(w); m != nil {
			argv = append(argv, strings.Fields(env[m[1]].Text)...)
			continue
		}
		argv = append(argv, variable().ReplaceAllStringFunc(w, func(s string) string {
			if s == "$$" {
				return "$"
			}
			return env[s[2:len(s)-1]].Text
		}))
	}
	return argv, last.At
}

var (
	wholeVariable = text.LazyRegexp(`^\$([A-Za-z_][A-Za-z0-9_]*)$`)
	variable      = text.LazyRegexp(`\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
)
