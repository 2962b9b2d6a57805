// Package puppet answers the inputs of rules about a Puppet Server: its version, how much it
// may do at once, whether its agents request each file by themselves, and what a request to
// it shows.
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

// Source answers the inputs that begin with "puppetserver.".
func Source() platform.Source {
	return platform.Source{
		Prefix: "puppetserver",
		Inputs: []fact.Input{
			{Name: "puppetserver.version", Type: fact.Text, Doc: "The version of the package."},
			{Name: "puppetserver.max_active_instances", Type: fact.Number, Doc: "JRuby interpreters (max-active-instances), by default one less than CPUs, 1 to 4."},
			{Name: "puppetserver.max_requests_per_instance", Type: fact.Number, Doc: "Requests after which an interpreter is replaced by a new one; 0 is never."},
			{Name: "puppetserver.multithreaded", Type: fact.Truth, Doc: "One interpreter serves several requests at a time."},
			{Name: "puppetserver.heap", Type: fact.Number, Unit: "bytes", Doc: "-Xmx of JAVA_ARGS."},
			{Name: "puppetserver.code_cache", Type: fact.Number, Unit: "bytes", Doc: "-XX:ReservedCodeCacheSize of JAVA_ARGS."},
			{Name: "puppetserver.static_catalogs", Type: fact.Truth, Doc: "Catalogs carry the metadata of files."},
			{Name: "puppetserver.versioned_code", Type: fact.Truth, Doc: "The server can tell the version of its code (code-id-command), without which catalogs carry none."},
			{Name: "puppetserver.code_command_faults", Type: fact.List, Doc: "What is wrong with code-id-command and code-content-command: one without the other, no whole path, not there, not executable."},
			{Name: "puppetserver.header_certificates", Type: fact.Truth, Doc: "Who a client is is read from its headers (allow-header-cert-info), as a web server in front sets them."},
			{Name: "puppetserver.listens_beyond_loopback", Type: fact.List, Doc: "Addresses with ports that other machines can reach."},
			{Name: "puppetserver.log.catalogs", Type: fact.Number, Doc: "Catalogs that agents asked for, in the access log."},
			{Name: "puppetserver.log.file_metadata", Type: fact.Number, Doc: "Requests for the metadata of a file in it."},
			{Name: "puppetserver.log.untimed", Type: fact.List, Doc: "The access logs whose format lacks the time that a request took; absent where no log of requests is configured."},
			{Name: "puppetserver.environment_timeout", Type: fact.Text, Doc: "How long an environment is kept in memory: 0, a time, or unlimited."},
		},
		Open: func(_ context.Context, m *platform.Subject) platform.Answers {
			return &puppet{host: m.Host, subject: m, files: puppetserver.LayoutOf(m.Host)}
		},
	}
}

type puppet struct {
	host    *host.Host
	subject *platform.Subject
	files   puppetserver.Layout

	asked  map[string]int // requests in the access log by resource; nil until it is read
	before int64          // bytes of it that were not read
	noLog  error
}

func (p *puppet) Items(set string) ([]string, string) { return nil, "Puppet Server has no set " + set }

func (p *puppet) Answer(name string) fact.Answer {
	if name == "puppetserver.version" {
		return p.version()
	}
	if a := p.version(); a.Value == nil {
		return fact.Answer{Unknown: a.Unknown, At: a.At}
	}
	switch name {
	case "puppetserver.log.catalogs":
		return p.requests("catalog")
	case "puppetserver.log.file_metadata":
		return p.requests("file_metadata")
	case "puppetserver.log.untimed":
		return p.untimed()
	case "puppetserver.max_active_instances":
		return p.instances()
	case "puppetserver.heap":
		return p.java("heap")
	case "puppetserver.code_cache":
		return p.java("code_cache")
	case "puppetserver.max_requests_per_instance":
		return byDefault(p.option("jruby-puppet.max-requests-per-instance", "puppetserver.conf", fact.Number), 0.0)
	case "puppetserver.multithreaded":
		return byDefault(p.option("jruby-puppet.multithreaded", "puppetserver.conf", fact.Truth), false)
	case "puppetserver.static_catalogs":
		if a := p.setting("static_catalogs", fact.Truth); a.Value != nil || a.Unknown != "" {
			return a
		}
		return fact.Answer{Value: true, At: "the default of Puppet"} // since Puppet 4.4
	case "puppetserver.versioned_code":
		a := p.option("versioned-code.code-id-command", "versioned-code.conf", fact.Text)
		if a.Unknown != "" {
			return a
		}
		return fact.Answer{Value: a.Value != nil && a.Value != "", At: a.At}
	case "puppetserver.code_command_faults":
		return p.codeCommands()
	case "puppetserver.header_certificates":
		return p.headers()
	case "puppetserver.listens_beyond_loopback":
		return p.beyondLoopback()
	case "puppetserver.environment_timeout":
		if a := p.setting("environment_timeout", fact.Text); a.Value != nil || a.Unknown != "" {
			return a
		}
		return fact.Answer{Value: "0", At: "the default of Puppet"}
	}
	return fact.Answer{Unknown: "Puppet Server has no " + name}
}

// version is of the package; a server whose packages are not listed as text has
// its directory.
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
	return fact.Answer{Unknown: "which version of Puppet Server this is: " + err.Error(), At: p.files.Options}
}

// option is one of the server's own; absent where no file sets it. file is the one
// that the packages have it in.
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

// byDefault is a value for what no file sets.
func byDefault(a fact.Answer, value any) fact.Answer {
	if a.Value == nil && a.Unknown == "" {
		return fact.Answer{Value: value, At: "the default of Puppet Server"}
	}
	return a
}

// instances is max-active-instances, and where nobody chose what the server
// takes by itself.
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

// setting is one of puppet.conf's for the server.
func (p *puppet) setting(key string, as fact.Type) fact.Answer {
	value, at, ok, err := puppetserver.Setting(p.host, key)
	switch {
	case err != nil:
		return fact.Unread(p.files.Puppet, err)
	case !ok:
		return fact.Answer{At: p.files.Puppet}
	}
	return platform.Typed(value, as, at)
}

// java is one of the sizes in JAVA_ARGS.
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

// requests counts those for one resource. Both counts are of the same lines, read
// once.
func (p *puppet) requests(resource string) fact.Answer {
	if p.asked == nil {
		p.asked = map[string]int{}
		p.before, p.noLog = p.subject.Log(p.files.Access, func(line []byte) { p.asked[asked(line)]++ })
	}
	switch {
	case p.noLog != nil:
		return fact.Unread(p.files.Access, p.noLog)
	case p.before > 0:
		return p.subject.Counted(p.asked[resource], p.files.Access, p.files.Access)
	}
	return p.subject.Counted(p.asked[resource], p.files.Access)
}

// asked is the resource that a line's request is for, "" for none that is counted:
// "GET /puppet/v3/RESOURCE/NAME HTTP/1.1" in quotes.
func asked(line []byte) string {
	_, request, _ := bytes.Cut(line, []byte(`"`))
	request, _, ok := bytes.Cut(request, []byte(`"`))
	for _, resource := range []string{"catalog", "file_metadata"} {
		if ok && bytes.Contains(request, []byte(" /puppet/v3/"+resource+"/")) {
			return resource
		}
	}
	return ""
}
