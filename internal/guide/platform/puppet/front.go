package puppet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/puppetserver"
)

// codeCommands answers with the faults of static catalogs' two commands. The server does not start
// with only one of them, and compiles no catalog if one fails.
func (p *puppet) codeCommands() fact.Answer {
	var commands [2]fact.Answer
	set := 0
	for i, key := range []string{"code-id-command", "code-content-command"} {
		commands[i] = p.option("versioned-code."+key, "versioned-code.conf", fact.Text)
		if commands[i].Unknown != "" {
			return commands[i]
		}
		if commands[i].Value != nil {
			set++
		}
	}
	faults := []string{}
	switch set {
	case 0:
		return fact.Answer{At: p.files.Options}
	case 1:
		faults = append(faults, "only one of code-id-command and code-content-command is set")
	}
	at := p.files.Options
	for _, c := range commands {
		name, ok := c.Value.(string)
		if !ok {
			continue
		}
		at = c.At
		if !path.IsAbs(name) {
			faults = append(faults, fmt.Sprintf("%s (%s) is not an absolute path", name, c.At))
			continue
		}
		st, err := p.host.Files.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			faults = append(faults, fmt.Sprintf("%s (%s) does not exist", name, c.At))
		case err != nil:
			return fact.Answer{Unknown: host.Why(name, err), At: c.At}
		case !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0:
			faults = append(faults, fmt.Sprintf("%s (%s) is not executable", name, c.At))
		}
	}
	return fact.Answer{Value: faults, At: at}
}

// headers answers whether the server identifies clients by headers: in the rules of auth.conf, or
// before Puppet Server 5 in the Ruby code.
func (p *puppet) headers() fact.Answer {
	for _, o := range []struct{ key, file string }{{"authorization.allow-header-cert-info", "auth.conf"}, {"master.allow-header-cert-info", "master.conf"}} {
		a := p.option(o.key, o.file, fact.Truth)
		if a.Unknown != "" || a.Value == true {
			return a
		}
	}
	return fact.Answer{Value: false, At: "the default of Puppet Server"}
}

// beyondLoopback answers with Jetty's addresses that other machines can reach. By default it
// listens only on localhost.
func (p *puppet) beyondLoopback() fact.Answer {
	sockets, err := puppetserver.Sockets(p.host)
	if err != nil {
		return fact.Unread(p.files.Options, err)
	}
	beyond, at := []string{}, p.files.Options
	for _, s := range sockets {
		if !s.Loopback() {
			beyond, at = append(beyond, s.Address()), s.At
		}
	}
	return fact.Answer{Value: beyond, At: at}
}
