// Package puppetserver reads and writes Puppet Server's HOCON options below conf.d and Java's
// memory sizes in JAVA_ARGS, and restarts the server. Run tests whether a server denies the
// requests that it should.
package puppetserver

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
)

// Name is the kind of Puppet Server's settings: puppetserver:max_active_instances.
const Name = "puppetserver"

// Layout holds the paths of a server's files.
type Layout struct {
	Options string // directory of HOCON options
	Puppet  string // puppet.conf
	Access  string // request log
}

// layouts are the paths in Puppet's and OpenVox's packages, and in Debian's.
var layouts = []Layout{
	{"/etc/puppetlabs/puppetserver/conf.d", "/etc/puppetlabs/puppet/puppet.conf", "/var/log/puppetlabs/puppetserver/puppetserver-access.log"},
	{"/etc/puppet/puppetserver/conf.d", "/etc/puppet/puppet.conf", "/var/log/puppetserver/puppetserver-access.log"},
}

// LayoutOf returns a machine's layout, or the first one if none matches.
func LayoutOf(h *host.Host) Layout {
	for _, l := range layouts {
		if _, err := h.Files.Stat(l.Options); err == nil {
			return l
		}
	}
	return layouts[0]
}

// own is the file with most options in the packages.
const own = "puppetserver.conf"

// javaFiles are the environment files of Red Hat's unit and of Debian's.
var javaFiles = []string{"/etc/sysconfig/puppetserver", "/etc/default/puppetserver"}

// paths maps the options that rules use to their HOCON paths.
var paths = map[string]string{
	"max_active_instances":      "jruby-puppet.max-active-instances",
	"max_requests_per_instance": "jruby-puppet.max-requests-per-instance",
	"multithreaded":             "jruby-puppet.multithreaded",
}

// Option returns the line that sets a HOCON path; ok is false if no line does. Trapperkeeper reads
// all files of the directory, and rejects a path that two files set. file is the packages' file for
// the path, which may be the only one in a copy.
func Option(h *host.Host, key, file string) (p conf.Place, ok bool, err error) {
	dir := LayoutOf(h).Options
	files, err := optionFiles(h, dir)
	if host.Unknown(err) {
		if p, ok, fileErr := in(h, path.Join(dir, file), key); fileErr == nil && ok {
			return p, true, nil
		}
	}
	if err != nil {
		return p, false, err
	}
	for _, name := range files {
		q, found, err := in(h, name, key)
		if err != nil {
			return p, false, err
		}
		if found {
			p, ok = q, true
		}
	}
	return p, ok, nil
}

// optionFiles returns the paths of the option files in a directory, sorted by name.
func optionFiles(h *host.Host, dir string) (files []string, err error) {
	list, err := h.Files.ReadDir(dir)
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".conf") {
			files = append(files, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(files)
	return files, err
}

// in returns a key's last assignment in a file, which applies.
func in(h *host.Host, file, key string) (conf.Place, bool, error) {
	all, err := conf.PlacesIn(h, syntax{}, file)
	p, ok := conf.Last(all, key)
	return p, ok, err
}

// Java returns the assignment of a memory size in JAVA_ARGS: heap, heap_min or code_cache.
func Java(h *host.Host, name string) (p conf.Place, ok bool, err error) {
	file, text, err := JavaFile(h)
	if err != nil {
		return conf.Place{File: file}, false, err
	}
	all, err := conf.Places(syntax{}, file, text)
	if p, ok = conf.Last(all, name); !ok {
		p.File = file
	}
	return p, ok, err
}

// Value returns the value of a line's literal.
func Value(p conf.Place) string { return syntax{}.Unquote(p.Literal) }

func winner(h *host.Host, _, key string) (conf.Place, bool, error) {
	if javaArguments[key] != "" {
		p, ok, err := Java(h, key)
		if err == nil && !ok {
			_, err = syntax{}.Place("", key)
		}
		return p, ok, err
	}
	return Option(h, key, own)
}

// check returns an error for options that fettle does not set, and for values out of range.
func check(key, value string) error {
	number := func(least, most int) error {
		if n, err := strconv.Atoi(value); err != nil || n < least || n > most {
			return fmt.Errorf("%q: want a number from %d to %d", value, least, most)
		}
		return nil
	}
	switch key {
	case paths["max_active_instances"]:
		return number(1, 1000)
	case paths["max_requests_per_instance"]:
		return number(0, 1e9)
	case paths["multithreaded"]:
		if value != "true" && value != "false" {
			return fmt.Errorf("%q: want true or false", value)
		}
		return nil
	case "heap", "heap_min", "code_cache":
		if !javaSize().MatchString(value) {
			return fmt.Errorf("%q: want a Java size such as 2g or 512m", value)
		}
		return nil
	}
	return fmt.Errorf("fettle does not set %s", key)
}
