// Package puppet answers what rules ask of a Puppet Server: its version, how much
// it may do at once, and whether its agents ask for every file on their own.
package puppet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/component/packages"
	"fettle.dev/fettle/internal/component/unit"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

// Source answers the inputs that begin with "puppetserver.".
func Source() platform.Source {
	return platform.Source{
		Prefix: "puppetserver",
		Inputs: []rule.Input{
			{Name: "puppetserver.version", Type: rule.Text, Doc: "The version of the package."},
			{Name: "puppetserver.max_active_instances", Type: rule.Number, Doc: "JRuby interpreters (max-active-instances), by default one less than CPUs, 1 to 4."},
			{Name: "puppetserver.heap", Type: rule.Number, Unit: "bytes", Doc: "-Xmx of JAVA_ARGS."},
			{Name: "puppetserver.code_cache", Type: rule.Number, Unit: "bytes", Doc: "-XX:ReservedCodeCacheSize of JAVA_ARGS."},
			{Name: "puppetserver.static_catalogs", Type: rule.Truth, Doc: "Catalogs carry the metadata of files."},
			{Name: "puppetserver.versioned_code", Type: rule.Truth, Doc: "The server can tell the version of its code (code-id-command), without which catalogs carry none."},
			{Name: "puppetserver.log.catalogs", Type: rule.Number, Doc: "Catalogs that agents asked for, in the end of the access log."},
			{Name: "puppetserver.log.file_metadata", Type: rule.Number, Doc: "Requests for the metadata of a file in it."},
			{Name: "puppetserver.environment_timeout", Type: rule.Text, Doc: "How long an environment is kept in memory: 0, a time, or unlimited."},
		},
		Open: func(_ context.Context, m *platform.Subject) platform.Answers {
			return &puppet{host: m.Host, subject: m}
		},
	}
}

type puppet struct {
	host    *host.Host
	subject *platform.Subject
}

const (
	confDir = "/etc/puppetlabs/puppetserver/conf.d"
	conf    = "/etc/puppetlabs/puppet/puppet.conf"
)

func (p *puppet) Items(set string) ([]string, string) { return nil, "Puppet Server has no set " + set }

func (p *puppet) Answer(name string) rule.Answer {
	if name == "puppetserver.version" {
		return p.version()
	}
	if a := p.version(); a.Value == nil {
		return rule.Answer{Unknown: a.Unknown, At: a.At}
	}
	switch name {
	case "puppetserver.log.catalogs":
		return p.requests("catalog")
	case "puppetserver.log.file_metadata":
		return p.requests("file_metadata")
	case "puppetserver.max_active_instances":
		return p.instances()
	case "puppetserver.heap":
		return p.javaArgument(`-Xmx`)
	case "puppetserver.code_cache":
		return p.javaArgument(`-XX:ReservedCodeCacheSize=`)
	case "puppetserver.static_catalogs":
		if a := p.setting("static_catalogs", rule.Truth); a.Value != nil || a.Unknown != "" {
			return a
		}
		return rule.Answer{Value: true, At: "the default of Puppet"} // since Puppet 4.4
	case "puppetserver.versioned_code":
		text, at, err := p.hocon("code-id-command", "versioned-code.conf")
		if err != nil {
			return p.unknown(confDir, err)
		}
		return rule.Answer{Value: text != "", At: at}
	case "puppetserver.environment_timeout":
		if a := p.setting("environment_timeout", rule.Text); a.Value != nil || a.Unknown != "" {
			return a
		}
		return rule.Answer{Value: "0", At: "the default of Puppet"}
	}
	return rule.Answer{Unknown: "Puppet Server has no " + name}
}

func (p *puppet) unknown(at string, err error) rule.Answer {
	switch {
	case errors.Is(err, host.ErrNotRecorded):
		return rule.Answer{Unknown: at + " is not in this copy", At: at}
	case errors.Is(err, fs.ErrNotExist):
		return rule.Answer{At: at}
	}
	return rule.Answer{Unknown: err.Error(), At: at}
}

// version is of the package; a server whose packages are not listed as text has
// its directory.
func (p *puppet) version() rule.Answer {
	list, err := packages.Read(p.host)
	if err == nil {
		for _, name := range []string{"puppetserver", "openvox-server", "pe-puppetserver"} {
			if v := list.Versions[name]; v != "" {
				return rule.Answer{Value: v, At: list.At}
			}
		}
		if !list.Cut {
			return rule.Answer{At: list.At}
		}
		err = errors.New(list.Lacks("puppetserver"))
	}
	if _, dirErr := p.host.Files.ReadDir(confDir); dirErr != nil {
		return p.unknown(confDir, dirErr)
	}
	return rule.Answer{Unknown: "which version of Puppet Server this is: " + err.Error(), At: confDir}
}

// instances is max-active-instances, and where nobody chose what the server
// takes by itself.
func (p *puppet) instances() rule.Answer {
	text, at, err := p.hocon("max-active-instances", "puppetserver.conf")
	if err != nil {
		return p.unknown(confDir, err)
	}
	if text != "" {
		return platform.Typed(text, rule.Number, at)
	}
	cpus := p.subject.Answer("cpu.count")
	n, ok := cpus.Value.(float64)
	if !ok {
		return cpus
	}
	return rule.Answer{Value: max(1, min(4, n-1)), At: "the default of Puppet Server"}
}

// hocon finds the last plain assignment of a key in the server's files: "key:
// value" or "key = value". "" where there is none. own is the file that the
// packages have the key in.
func (p *puppet) hocon(key, own string) (text, at string, err error) {
	list, err := p.host.Files.ReadDir(confDir)
	at = confDir
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".conf") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	if errors.Is(err, host.ErrNotRecorded) {
		// A copy may have the file that the key belongs to without the others.
		body, fileErr := p.host.Files.ReadFile(confDir + "/" + own)
		if v, line := assigned(string(body), key); fileErr == nil && line > 0 {
			return v, confDir + "/" + own + ":" + strconv.Itoa(line), nil
		}
	}
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		file := confDir + "/" + name
		body, err := p.host.Files.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		if v, line := assigned(string(body), key); line > 0 {
			text, at = v, file+":"+strconv.Itoa(line)
		}
	}
	return text, at, nil
}

// assigned finds the last assignment of a key; line is 0 where there is none.
func assigned(text, key string) (value string, line int) {
	n := 0
	for row := range strings.Lines(text) {
		n++
		row = strings.TrimSpace(row)
		if strings.HasPrefix(row, "#") || strings.HasPrefix(row, "//") {
			continue
		}
		rest, ok := strings.CutPrefix(strings.TrimPrefix(row, `"`), key)
		if !ok {
			continue
		}
		rest = strings.TrimLeft(strings.TrimPrefix(rest, `"`), " \t")
		if rest == "" || rest[0] != ':' && rest[0] != '=' {
			continue
		}
		rest, _, _ = strings.Cut(rest[1:], " #")
		value, line = strings.Trim(strings.TrimRight(strings.TrimSpace(rest), ","), `"`), n
	}
	return value, line
}

// setting is one of puppet.conf's for the server: [server], before it [master],
// before it [main].
func (p *puppet) setting(key string, as rule.Type) rule.Answer {
	body, err := p.host.Files.ReadFile(conf)
	if err != nil {
		return p.unknown(conf, err)
	}
	found, section, n := map[string]rule.Answer{}, "main", 0
	for row := range strings.Lines(string(body)) {
		n++
		row = strings.TrimSpace(row)
		if strings.HasPrefix(row, "[") {
			section = strings.Trim(row, "[]")
			continue
		}
		name, value, ok := strings.Cut(row, "=")
		if ok && strings.TrimSpace(name) == key {
			found[section] = platform.Typed(strings.TrimSpace(value), as, fmt.Sprintf("%s:%d", conf, n))
		}
	}
	for _, s := range []string{"server", "master", "main"} {
		if a, ok := found[s]; ok {
			return a
		}
	}
	return rule.Answer{At: conf}
}

// javaArgument is the last size of an argument in JAVA_ARGS.
func (p *puppet) javaArgument(prefix string) rule.Answer {
	var last rule.Answer
	for _, file := range []string{"/etc/sysconfig/puppetserver", "/etc/default/puppetserver"} {
		body, err := p.host.Files.ReadFile(file)
		if err != nil {
			if last.At == "" || last.Unknown == "" {
				last = p.unknown(file, err)
			}
			continue
		}
		last = rule.Answer{At: file}
		for _, a := range unit.EnvironmentFile(string(body)) {
			if a.Name != "JAVA_ARGS" {
				continue
			}
			for _, w := range strings.Fields(a.Value) { // Java takes the last one
				if size, ok := strings.CutPrefix(w, prefix); ok {
					last = platform.Typed(size, rule.Bytes, file+":"+strconv.Itoa(a.Line))
				}
			}
		}
		return last
	}
	return last
}

// accessLog is Puppet Server's, and maxLog how much of its end is read, in bytes.
const (
	accessLog = "/var/log/puppetlabs/puppetserver/puppetserver-access.log"
	maxLog    = 16 << 20
)

// requests counts those for one resource.
func (p *puppet) requests(resource string) rule.Answer {
	text, _, err := p.host.Tail(accessLog, maxLog)
	if err != nil {
		return p.unknown(accessLog, err)
	}
	return rule.Answer{Value: float64(asked(text, resource)), At: accessLog}
}

// asked counts the lines whose request is for a resource: "GET
// /puppet/v3/RESOURCE/NAME HTTP/1.1" in quotes.
func asked(text []byte, resource string) (n int) {
	want := []byte(" /puppet/v3/" + resource + "/")
	for line := range bytes.Lines(text) {
		_, request, _ := bytes.Cut(line, []byte(`"`))
		request, _, ok := bytes.Cut(request, []byte(`"`))
		if ok && bytes.Contains(request, want) {
			n++
		}
	}
	return n
}
