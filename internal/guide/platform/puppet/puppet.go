// Package puppet answers rule inputs about a Puppet Server: its version, its limits, whether its
// agents request each file individually, and its responses to requests.
package puppet

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/puppetserver"
)

// inputs declares Puppet Server's inputs except its version, each with the function that answers
// it.
var inputs = []struct {
	name   string
	as     fact.Type
	doc    string
	answer func(*puppet) fact.Answer
}{
	{"max_active_instances", fact.Number, "JRuby interpreters (max-active-instances), by default one less than CPUs, 1 to 4.", (*puppet).instances},
	{"max_requests_per_instance", fact.Number, "Requests after which an interpreter is replaced; 0 means never.", func(p *puppet) fact.Answer {
		return byDefault(p.option("jruby-puppet.max-requests-per-instance", "puppetserver.conf", fact.Number), 0.0)
	}},
	{"multithreaded", fact.Truth, "One interpreter serves several requests at a time.", func(p *puppet) fact.Answer {
		return byDefault(p.option("jruby-puppet.multithreaded", "puppetserver.conf", fact.Truth), false)
	}},
	{"heap", fact.Bytes, "-Xmx of JAVA_ARGS.", func(p *puppet) fact.Answer { return p.java("heap") }},
	{"code_cache", fact.Bytes, "-XX:ReservedCodeCacheSize of JAVA_ARGS.", func(p *puppet) fact.Answer { return p.java("code_cache") }},
	{"static_catalogs", fact.Truth, "Catalogs contain the metadata of files.", func(p *puppet) fact.Answer {
		return p.setting("static_catalogs", fact.Truth, true) // since Puppet 4.4
	}},
	{"versioned_code", fact.Truth, "The server knows the version of its code (code-id-command), without which catalogs contain no metadata.", func(p *puppet) fact.Answer {
		a := p.option("versioned-code.code-id-command", "versioned-code.conf", fact.Text)
		if a.Unknown == "" {
			a.Value = a.Value != nil && a.Value != ""
		}
		return a
	}},
	{"code_command_faults", fact.List, "Faults of code-id-command and code-content-command: one without the other, not an absolute path, missing, not executable.", (*puppet).codeCommands},
	{"header_certificates", fact.Truth, "The server reads the client's identity from headers (allow-header-cert-info), which a web server in front sets.", (*puppet).headers},
	{"listens_beyond_loopback", fact.List, "Addresses with ports that other machines can reach.", (*puppet).beyondLoopback},
	{"log.catalogs", fact.Number, "Requests for catalogs in the access log.", func(p *puppet) fact.Answer { return p.requests("catalog") }},
	{"log.file_metadata", fact.Number, "Requests for the metadata of a file in the access log.", func(p *puppet) fact.Answer { return p.requests("file_metadata") }},
	{"log.untimed", fact.List, "The access logs whose format lacks the duration of requests; absent if no log of requests is configured.", (*puppet).untimed},
	{"environment_timeout", fact.Text, "How long an environment is kept in memory: 0, a time, or unlimited.", func(p *puppet) fact.Answer {
		return p.setting("environment_timeout", fact.Text, "0")
	}},
}

// Source answers the inputs "puppetserver.*".
func Source() platform.Source {
	s := platform.Source{
		Prefix: "puppetserver",
		Inputs: []fact.Input{{Name: "puppetserver.version", Type: fact.Text, Doc: "The version of the package."}},
		Open: func(_ context.Context, m *platform.Subject) platform.Answers {
			return &puppet{host: m.Host, subject: m, files: puppetserver.LayoutOf(m.Host)}
		},
	}
	for _, in := range inputs {
		input := fact.Input{Name: "puppetserver." + in.name, Type: in.as, Doc: in.doc}
		if in.as == fact.Bytes {
			input.Type, input.Unit = fact.Number, "bytes"
		}
		s.Inputs = append(s.Inputs, input)
	}
	return s
}

type puppet struct {
	host    *host.Host
	subject *platform.Subject
	files   puppetserver.Layout

	counts map[string]int // requests in the access log by resource; nil until read
	before int64          // unread bytes at the start of the log
	noLog  error
}

func (p *puppet) Items(set string) ([]string, string) { return nil, "Puppet Server has no set " + set }

func (p *puppet) Answer(name string) fact.Answer {
	a := p.version()
	if name == "puppetserver.version" {
		return a
	}
	if a.Value == nil {
		return fact.Answer{Unknown: a.Unknown, At: a.At}
	}
	for _, in := range inputs {
		if name == "puppetserver."+in.name {
			return in.answer(p)
		}
	}
	return fact.Answer{Unknown: "Puppet Server has no " + name}
}

// version answers with the package's version. Without a readable package list, the options
// directory shows that a server is installed.
func (p *puppet) version() fact.Answer {
	if _, err := p.host.Files.Stat(path.Dir(p.files.Options)); product.ByRPM(p.host) && errors.Is(err, fs.ErrNotExist) {
		return fact.Answer{At: p.files.Options}
	}
	list, err := product.Read(p.host)
	if err == nil {
		for _, name := range []string{"puppetserver", "openvox-server", "pe-puppetserver"} {
			if v := list.Versions[name]; v != "" {
				return fact.Answer{Value: v, At: list.At}
			}
		}
		if !list.Cut {
			return fact.Answer{At: list.At}
		}
		err = errors.New(list.Lacks("puppetserver"))
	}
	if _, dirErr := p.host.Files.ReadDir(p.files.Options); dirErr != nil {
		return fact.Unread(p.files.Options, dirErr)
	}
	return fact.Answer{Unknown: "version of Puppet Server unknown: " + err.Error(), At: p.files.Options}
}

// option answers with an option of the server, absent if no file sets it. file is the name of the
// option's file in the packages.
func (p *puppet) option(key, file string, as fact.Type) fact.Answer {
	at, ok, err := puppetserver.Option(p.host, key, file)
	switch {
	case err != nil:
		return fact.Unread(p.files.Options, err)
	case !ok:
		return fact.Answer{At: p.files.Options}
	}
	return platform.Typed(puppetserver.Value(at), as, at.String())
}

// byDefault replaces an absent answer by the default value.
func byDefault(a fact.Answer, value any) fact.Answer {
	if a.Value == nil && a.Unknown == "" {
		return fact.Answer{Value: value, At: "the default of Puppet Server"}
	}
	return a
}

// instances answers with max-active-instances, or the server's default.
func (p *puppet) instances() fact.Answer {
	a := p.option("jruby-puppet.max-active-instances", "puppetserver.conf", fact.Number)
	if a.Value != nil || a.Unknown != "" {
		return a
	}
	cpus := p.subject.Answer("cpu.count")
	n, ok := cpus.Value.(float64)
	if !ok {
		return cpus
	}
	return byDefault(a, max(1, min(4, n-1)))
}

// setting answers with a setting in puppet.conf, or Puppet's default.
func (p *puppet) setting(key string, as fact.Type, def any) fact.Answer {
	value, at, ok, err := puppetserver.Setting(p.host, key)
	switch {
	case err != nil:
		return fact.Unread(p.files.Puppet, err)
	case !ok:
		return fact.Answer{Value: def, At: "the default of Puppet"}
	}
	return platform.Typed(value, as, at)
}

// java answers with a size in JAVA_ARGS.
func (p *puppet) java(name string) fact.Answer {
	at, ok, err := puppetserver.Java(p.host, name)
	switch {
	case err != nil:
		return fact.Unread(at.File, err)
	case !ok:
		return fact.Answer{At: at.File}
	}
	return platform.Typed(puppetserver.Value(at), fact.Bytes, at.String())
}

// requests answers with the number of requests for a resource. It reads the log once.
func (p *puppet) requests(resource string) fact.Answer {
	if p.counts == nil {
		p.counts = map[string]int{}
		p.before, p.noLog = p.subject.Log(p.files.Access, func(line []byte) { p.counts[requested(line)]++ })
	}
	switch {
	case p.noLog != nil:
		return fact.Unread(p.files.Access, p.noLog)
	case p.before > 0:
		return p.subject.Counted(p.counts[resource], p.files.Access, p.files.Access)
	}
	return p.subject.Counted(p.counts[resource], p.files.Access)
}

// requested returns the resource requested in a log line, or "" if it is not counted: "GET
// /puppet/v3/RESOURCE/NAME HTTP/1.1" in quotes.
func requested(line []byte) string {
	_, request, _ := bytes.Cut(line, []byte(`"`))
	request, _, ok := bytes.Cut(request, []byte(`"`))
	for _, resource := range []string{"catalog", "file_metadata"} {
		if ok && bytes.Contains(request, []byte(" /puppet/v3/"+resource+"/")) {
			return resource
		}
	}
	return ""
}
