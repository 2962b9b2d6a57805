package foreman

import (
	"path"
	"slices"
	"strings"
)

// arguments are the parsed options of a Puma command line.
type arguments struct {
	files       []string // -C, in order
	environment string   // -e
	state       string   // -S
	workers     string   // -w; "" if missing
	min, max    string   // -t
	rails       bool     // rails server, which starts Puma itself
}

// options are Puma's options with an argument (puma 5.6, lib/puma/cli.rb). "?" is an optional
// argument, directly after the option.
var options = []struct {
	short, long string
	argument    string
}{
	{"b", "bind", "a"}, {"", "bind-to-activated-sockets", "?"}, {"C", "config", "a"}, {"", "no-config", ""}, {"", "control-url", "a"},
	{"", "control-token", "a"}, {"", "debug", ""}, {"", "dir", "a"}, {"e", "environment", "a"}, {"f", "fork-worker", "?"}, {"I", "include", "a"},
	{"p", "port", "a"}, {"", "pidfile", "a"}, {"", "preload", ""}, {"", "prune-bundler", ""}, {"", "extra-runtime-dependencies", "a"},
	{"q", "quiet", ""}, {"v", "log-requests", ""}, {"R", "restart-cmd", "a"}, {"s", "silent", ""}, {"S", "state", "a"}, {"t", "threads", "a"},
	{"", "early-hints", ""}, {"V", "version", ""}, {"w", "workers", "a"}, {"", "tag", "a"}, {"", "redirect-stdout", "a"}, {"", "redirect-stderr", "a"},
	{"", "redirect-append", ""}, {"", "no-redirect-append", ""}, {"h", "help", ""},
}

// readCommand parses the Puma call in a command, after prefixes such as bundle exec, a Ruby or a
// software collection. ok is false if the command does not call Puma.
func readCommand(argv []string) (a arguments, ok bool) {
	for i, w := range argv {
		switch base := path.Base(w); {
		case base == "puma" || base == "puma-wild":
			return readArguments(argv[i+1:]), true
		case base == "rails" && i+1 < len(argv) && (argv[i+1] == "server" || argv[i+1] == "s"):
			return railsArguments(argv[i+2:]), true
		case (base == "sh" || base == "bash") && i+2 < len(argv) && strings.HasPrefix(argv[i+1], "-") && strings.HasSuffix(argv[i+1], "c"):
			script := argv[i+2]
			if strings.ContainsAny(script, ";|&$`<>()\\\"'*?\n") {
				return a, false
			}
			return readCommand(strings.Fields(script))
		}
	}
	return a, false
}

// railsArguments parses the options of "rails server", which has none for workers and threads.
func railsArguments(argv []string) arguments {
	a := arguments{rails: true}
	for i, w := range argv {
		if v, ok := strings.CutPrefix(w, "--environment="); ok {
			a.environment = v
		} else if (w == "-e" || w == "--environment") && i+1 < len(argv) {
			a.environment = argv[i+1]
		} else if v, ok := strings.CutPrefix(w, "-e"); ok && v != "" {
			a.environment = v
		}
	}
	return a
}

// readArguments parses Puma's own options like Ruby's OptionParser: --name=X, --name X, an
// unambiguous prefix of a name, -nX, -n X, and combined short ones without an argument.
func readArguments(argv []string) (a arguments) {
	for len(argv) > 0 {
		w := argv[0]
		argv = argv[1:]
		next := func() (v string) {
			if len(argv) > 0 {
				v, argv = argv[0], argv[1:]
			}
			return v
		}
		switch {
		case w == "--":
			return a
		case strings.HasPrefix(w, "--"):
			name, v, has := strings.Cut(w[2:], "=")
			name, kind := long(name)
			if kind == "a" && !has {
				v = next()
			}
			a.take(name, v)
		case strings.HasPrefix(w, "-"):
			for rest := w[1:]; rest != ""; {
				letter := rest[:1]
				rest = rest[1:]
				at := slices.IndexFunc(options, func(o struct{ short, long, argument string }) bool { return o.short == letter })
				if at < 0 {
					break // Puma rejects it
				}
				o := options[at]
				v := ""
				if o.argument != "" {
					v, rest = rest, ""
				}
				if o.argument == "a" && v == "" {
					v = next()
				}
				a.take(o.long, v)
			}
		}
	}
	return a
}

// long returns the option with this name or unambiguous prefix, and its argument's kind; "" if
// none exists.
func long(name string) (whole, argument string) {
	n := 0
	for _, o := range options {
		if o.long == name {
			return o.long, o.argument
		}
		if strings.HasPrefix(o.long, name) {
			whole, argument = o.long, o.argument
			n++
		}
	}
	if n != 1 {
		return "", ""
	}
	return whole, argument
}

func (a *arguments) take(name, v string) {
	switch name {
	case "config":
		a.files = append(a.files, v)
	case "no-config":
		a.files = append(a.files, "-")
	case "environment":
		a.environment = v
	case "state":
		a.state = v
	case "workers":
		a.workers = v
	case "threads":
		least, most, two := strings.Cut(v, ":")
		if a.min, a.max = least, most; !two {
			a.max = least
		}
	}
}
