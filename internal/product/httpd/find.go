package httpd

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// instance is one configuration and how its distribution starts it.
type instance struct {
	conf.Instance
	root string // ServerRoot unless a line sets it
	unit string
	// envvars is the path of a shell script with variables, or "".
	envvars string
	// defines are the -D names in the distribution's file of options.
	defines []string
	// argv is the command line of the running process, or nil.
	argv []string
	// builtIn are the modules compiled into httpd.
	builtIn []string
}

// debianBuiltIn are the modules compiled into Debian's apache2 (apache2 -l).
var debianBuiltIn = []string{"watchdog", "log_config", "logio", "version", "unixd"}

// instances returns Debian's /etc/apache2, its extra instances /etc/apache2-NAME, and Red Hat's
// /etc/httpd.
func instances(h *host.Host) ([]instance, error) {
	var out []instance
	mains, err := host.Glob(h.Files, "/etc/apache2*/apache2.conf")
	if err != nil {
		return nil, err
	}
	for _, main := range mains {
		dir := path.Dir(main)
		suffix := strings.TrimPrefix(path.Base(dir), "apache2")
		unit := "apache2.service"
		if suffix != "" {
			unit = "apache2@" + strings.TrimPrefix(suffix, "-") + ".service"
		}
		out = append(out, instance{
			Instance: conf.Instance{Name: path.Base(dir), Main: main}, root: dir, unit: unit,
			envvars: dir + "/envvars", builtIn: debianBuiltIn,
		})
	}
	const redHat = "/etc/httpd/conf/httpd.conf"
	_, err = h.Files.Stat(redHat)
	if _, link := h.Files.Lstat(redHat); err == nil || link == nil { // reading a dangling link returns a clear error
		out = append(out, instance{
			Instance: conf.Instance{Name: "httpd", Main: redHat}, root: "/etc/httpd", unit: "httpd.service",
			defines: optionDefines(h), builtIn: nil,
		})
	} else if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	return out, nil
}

// optionDefines returns the -D names of OPTIONS in /etc/sysconfig/httpd.
func optionDefines(h *host.Host) []string {
	text, err := h.Files.ReadFile("/etc/sysconfig/httpd")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "OPTIONS=")
		if !ok {
			continue
		}
		out = defined(strings.Fields(strings.Trim(value, `"'`)))
	}
	return out
}

// environment returns the unit's environment, overridden by Debian's envvars. It ignores lines of
// that script that need a shell, so their variables stay unresolved.
func environment(h *host.Host, in instance) map[string]string {
	env := map[string]string{}
	if in.unit != "" {
		if u, err := systemd.New(h).Load(in.unit); err == nil {
			all, _ := u.Environment()
			for name, v := range all {
				env[name] = v.Text
			}
		}
	}
	if in.envvars == "" {
		return env
	}
	text, err := h.Files.ReadFile(in.envvars)
	if err != nil {
		return env
	}
	suffix := strings.TrimPrefix(path.Base(path.Dir(in.Main)), "apache2")
	replace := strings.NewReplacer("${SUFFIX}", suffix, "$SUFFIX", suffix, "${APACHE_CONFDIR}", path.Dir(in.Main), "$APACHE_CONFDIR", path.Dir(in.Main))
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !ok || strings.HasPrefix(name, "#") || strings.ContainsAny(name, " \t$(") {
			continue
		}
		value, _, _ = strings.Cut(replace.Replace(value), " #")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		if strings.ContainsAny(value, "$`(;") {
			delete(env, name)
			continue
		}
		env[name] = value
	}
	return env
}

// instanceOf returns the instance with a main file.
func instanceOf(h *host.Host, main string) instance {
	all, _ := instances(h)
	for _, in := range all {
		if in.Is(h, main) {
			in.Main = main
			return in
		}
	}
	return instance{Instance: conf.Instance{Main: main}, root: path.Dir(main)}
}

// rootsOf returns the directories in which fettle reads and writes.
func rootsOf(*host.Host) []string { return []string{"/etc"} }

// version returns the version of httpd's package and its source.
func version(h *host.Host) (string, string) {
	return product.Version(h, "apache2-bin", "apache2", "httpd")
}
