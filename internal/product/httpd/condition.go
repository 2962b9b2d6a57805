package httpd

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// holds reports whether httpd reads a conditional section. If that is unknown, it returns the
// cause. Each case was compared with httpd 2.4.71.
func (r *reader) holds(kind, args string) (is conf.Truth, unknown string) {
	name, not := condition(args)
	found := false
	switch kind {
	case "ifversion":
		return ifVersion(args, r.version)
	case "ifdefine":
		_, found = r.defines[name]
	case "ifmodule":
		_, found = r.modules[name]
	case "iffile":
		_, err := r.host.Files.Stat(r.path(name))
		found = err == nil
	default:
		return conf.Perhaps, "the condition depends on the directives of this httpd and its modules"
	}
	if found != not {
		return conf.Yes, ""
	}
	return conf.No, ""
}

// condition returns the name that a section tests, which is its first word. not is set by a leading
// "!", except within quotes.
func condition(args string) (name string, not bool) {
	args, not = strings.CutPrefix(strings.TrimLeft(args, blank+"\n"), "!")
	if w := words(args); len(w) > 0 {
		name = w[0]
	}
	return name, not
}

// ifVersion evaluates <IfVersion [OPERATOR] VERSION> (mod_version). Parts missing from VERSION are
// 0, so that "= 2.4" matches only 2.4.0; /.../ is a regular expression for = and ==, and ~ precedes
// one without slashes. It returns Perhaps for a condition that httpd would reject.
func ifVersion(args, version string) (is conf.Truth, unknown string) {
	w := words(args)
	if len(w) == 0 || len(w) > 2 {
		return conf.Perhaps, fmt.Sprintf("%q is not a condition of IfVersion", args)
	}
	operator, against := "=", w[len(w)-1]
	if len(w) == 2 {
		operator = w[0]
	}
	running, ok := release(version)
	if !ok {
		return conf.Perhaps, "version of httpd unknown (no package list)"
	}
	operator, not := strings.CutPrefix(operator, "!")
	pattern := ""
	if len(against) > 1 && against[0] == '/' && against[len(against)-1] == '/' && (operator == "=" || operator == "==") {
		pattern = against[1 : len(against)-1]
	} else if operator == "~" {
		pattern = against
	}
	var holds bool
	if pattern != "" {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return conf.Perhaps, fmt.Sprintf("%q cannot be compared with the version", against)
		}
		holds = re.MatchString(version)
	} else {
		asked, ok := release(against)
		order := 0
		for i := range running {
			order = cmp.Or(order, cmp.Compare(running[i], asked[i]))
		}
		compare, known := map[string]bool{"=": order == 0, "==": order == 0, ">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0}[operator]
		if !ok || !known {
			return conf.Perhaps, fmt.Sprintf("%q is not a condition of IfVersion", args)
		}
		holds = compare
	}
	if holds != not {
		return conf.Yes, ""
	}
	return conf.No, ""
}

// release parses major[.minor[.patch]].
func release(version string) (out [3]int, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) > 3 {
		return out, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 31)
		if err != nil {
			return out, false
		}
		out[i] = int(n)
	}
	return out, true
}

// defined returns the names that a command line defines with -D NAME or -DNAME.
func defined(argv []string) []string {
	var out []string
	for i, a := range argv {
		if a == "-D" && i+1 < len(argv) {
			out = append(out, argv[i+1])
		} else if d, ok := strings.CutPrefix(a, "-D"); ok && d != "" {
			out = append(out, d)
		}
	}
	return out
}

// commandDefines returns the names defined on an instance's command line: the command line of the
// unit, or else of the running process, or else in Red Hat's sysconfig file. Debian's apachectl
// adds APACHE_ARGUMENTS from envvars or from the unit's environment.
func commandDefines(h *host.Host, in instance, env map[string]string) []string {
	var out []string
	if in.envvars != "" {
		out = defined(strings.Fields(env["APACHE_ARGUMENTS"]))
	}
	if u, err := systemd.New(h).Load(in.unit); in.unit != "" && err == nil {
		if argv, _ := u.Command(); len(argv) > 0 {
			return append(out, defined(argv)...)
		}
	}
	if len(in.argv) > 0 {
		return defined(in.argv)
	}
	return append(out, in.defines...)
}

// versionNumber returns httpd's version without the distribution's suffix.
func versionNumber(h *host.Host) string {
	v, _ := version(h)
	return product.Upstream(v)
}
