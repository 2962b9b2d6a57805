package httpd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// dryRun runs httpd -t -D DUMP_CONFIG (mod_info). It prints the directives that it has read, with
// conditions, variables and macros resolved.
func dryRun(ctx context.Context, i *installed, d product.DryRun) (product.Checked, error) {
	d.Otherwise, d.Complaint = "nobody", complaint
	if t, ok := i.Files.value("user"); ok && t.unknown == "" {
		d.User = strings.TrimPrefix(t.value, "#")
	}
	ask := func(dump ...string) (product.Checked, error) {
		d.Argv, d.Env = testCall(i, dump...)
		return d.Run(ctx, i.Host)
	}
	c, err := ask("-D", "DUMP_MODULES")
	if err != nil || c.Refused != "" {
		return c, err
	}
	i.Files.take(c.Output)
	if _, loaded := i.Files.modules["info_module"]; !loaded {
		if asksForInfo(i) {
			return c, nil // with mod_info loaded, httpd would read other directives
		}
		file := infoModule(i.Host)
		if file == "" {
			return c, nil
		}
		c, err = ask("-C", "LoadModule info_module "+file, "-D", "DUMP_CONFIG")
	} else {
		c, err = ask("-D", "DUMP_CONFIG")
	}
	if err != nil || c.Refused != "" {
		return c, err
	}
	return c, i.Files.replace(c.Output)
}

// envvarsCall calls Debian's httpd with the variables of envvars. Like apache2ctl, it also creates
// the run directory.
const envvarsCall = `if test -f "$APACHE_ENVVARS"; then . "$APACHE_ENVVARS"; fi; mkdir -p "${APACHE_RUN_DIR:-/var/run/apache2}" && exec "${APACHE_HTTPD:-/usr/sbin/apache2}" -d "$APACHE_CONFDIR" $APACHE_ARGUMENTS "$@"`

// testCall returns the command httpd -t with the service's options and environment.
func testCall(i *installed, dump ...string) (argv, env []string) {
	c := tool(i.Host, i.Main, append([]string{"-t"}, dump...)...)
	envvars := instanceOf(i.Host, i.Main).envvars
	if envvars == "" {
		return c.Argv, c.Env
	}
	env = append(c.Env, "APACHE_ENVVARS="+envvars, "APACHE_CONFDIR="+path.Dir(i.Main))
	return append([]string{"/bin/sh", "-c", envvarsCall, "sh"}, c.Argv[1:]...), env
}

var infoCondition = text.LazyRegexp(`(?i)<IfModule[ \t]+["']?!?(?:mod_info\.c|info_module)`)

// asksForInfo reports whether a condition in the files depends on mod_info.
func asksForInfo(i *installed) bool {
	return slices.ContainsFunc(i.Files.files, func(f string) bool {
		text, err := i.Host.Files.ReadFile(f)
		return err != nil || infoCondition().Match(text)
	})
}

// infoModule returns the path of mod_info in the distribution's module directory, or "".
func infoModule(h *host.Host) string {
	for _, dir := range []string{"/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"} {
		if _, err := h.Files.Stat(dir + "/mod_info.so"); err == nil {
			return dir + "/mod_info.so"
		}
	}
	return ""
}

var (
	dumpedModule = text.LazyRegexp(`^ ([A-Za-z0-9_]+_module) \((?:static|shared)\)$`)
	dumpedLine   = text.LazyRegexp(`^# +([0-9]+):$`)
	usedAt       = text.LazyRegexp(`used on line ([0-9]+) of "([^"]+)"$`)
)

// take adds the modules in the output of DUMP_MODULES, including compiled-in ones.
func (s *settings) take(dump string) {
	for text := range strings.Lines(dump) {
		m := dumpedModule().FindStringSubmatch(strings.TrimRight(text, "\n"))
		if m == nil {
			continue
		}
		name := m[1]
		if _, known := s.modules[name]; !known {
			s.modules[name] = "httpd -M"
		}
		if mpm, ok := strings.CutPrefix(name, "mpm_"); ok && s.mpm == "" {
			s.mpm, s.mpmAt = strings.TrimSuffix(mpm, "_module"), "httpd -M"
		}
	}
}

// replace replaces the directives that fettle has read with those in the output of DUMP_CONFIG.
func (s *settings) replace(dump string) error {
	var context []string
	file, number := "", 0
	s.all, s.values, s.unsure = nil, nil, nil
	for text := range strings.Lines(dump) {
		text = strings.TrimSpace(text)
		switch m := dumpedLine().FindStringSubmatch(text); {
		case text == "":
		case m != nil:
			number, _ = strconv.Atoi(m[1])
		case strings.HasPrefix(text, "# In file: "):
			file = strings.TrimPrefix(text, "# In file: ")
		case strings.HasPrefix(text, "</"):
			if len(context) == 0 {
				return fmt.Errorf("httpd -D DUMP_CONFIG printed an end without a section: %q", text)
			}
			context = context[:len(context)-1]
		case strings.HasPrefix(text, "<"):
			kind, args, _ := strings.Cut(strings.TrimSuffix(text[1:], ">"), " ")
			context = append(context, scope(strings.ToLower(kind), args))
		case file != "":
			directive, args, _ := strings.Cut(text, " ")
			key, err := syntax{}.Key(strings.Join(append(slices.Clone(context), directive), "/"))
			if err != nil {
				continue // no rule uses it
			}
			at := conf.Place{File: file, Assignment: conf.Assignment{Key: key, Literal: args, Line: number}}
			if m := usedAt().FindStringSubmatch(file); m != nil { // a macro
				at.File = m[2]
				at.Line, _ = strconv.Atoi(m[1])
			}
			s.all, s.values, s.unsure = append(s.all, at), append(s.values, strings.Join(words(args), " ")), append(s.unsure, "")
		}
	}
	if file == "" || len(context) > 0 {
		return errors.New("httpd -D DUMP_CONFIG printed no configuration")
	}
	return nil
}

// unitEnvironment returns a service's environment as NAME=VALUE.
func unitEnvironment(h *host.Host, service string) (env []string) {
	if service == "" {
		return nil
	}
	u, err := systemd.New(h).Load(service)
	if err != nil {
		return nil
	}
	all, _ := u.Environment()
	for name, v := range all {
		env = append(env, name+"="+v.Text)
	}
	slices.Sort(env)
	return env
}
