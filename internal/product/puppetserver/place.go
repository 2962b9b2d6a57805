package puppetserver

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Setting returns a puppet.conf setting for the server, from [server], or else [master], or else
// [main]. at is FILE:LINE.
func Setting(h *host.Host, key string) (value, at string, ok bool, err error) {
	file := LayoutOf(h).Puppet
	body, err := h.Files.ReadFile(file)
	if err != nil {
		return "", file, false, err
	}
	type found struct{ value, at string }
	all, section, n := map[string]found{}, "main", 0
	for row := range strings.Lines(string(body)) {
		n++
		row = strings.TrimSpace(row)
		if strings.HasPrefix(row, "[") {
			section = strings.Trim(row, "[]")
			continue
		}
		name, value, ok := strings.Cut(row, "=")
		if ok && strings.TrimSpace(name) == key {
			all[section] = found{strings.TrimSpace(value), fmt.Sprintf("%s:%d", file, n)}
		}
	}
	for _, s := range []string{"server", "master", "main"} {
		if f, ok := all[s]; ok {
			return f.value, f.at, true, nil
		}
	}
	return "", file, false, nil
}

// JavaFile returns the file that sets JAVA_ARGS, and its text. A copied machine without any of the
// possible files is incomplete, which is an error.
func JavaFile(h *host.Host) (file, text string, err error) {
	missing := error(fs.ErrNotExist)
	for _, f := range javaFiles {
		b, err := h.Files.ReadFile(f)
		if err == nil {
			return f, string(b), nil
		}
		if !host.NotFound(err) {
			return f, "", err
		}
		if host.Unknown(err) {
			missing = err
		}
	}
	return javaFiles[0], "", missing
}

// Places are a server's paths outside of its configuration.
type Places struct {
	Environments string // environments directory
	Data         string // directory to which the server's user writes
	Certificate  string // the server's; "" if its name is unknown
	Key          string
	CA           string // the CA's certificates
	CRL          string // the CA's revocation list
}

// places are the packages' paths.
var places = []struct{ code, data, ssl, ca string }{
	{"/etc/puppetlabs/code", "/opt/puppetlabs/server/data/puppetserver", "/etc/puppetlabs/puppet/ssl", "/etc/puppetlabs/puppetserver/ca"},
	{"/etc/puppet/code", "/var/lib/puppetserver", "/var/lib/puppet/ssl", "/etc/puppet/puppetserver/ca"},
}

// PlacesOf returns the paths from a machine's files. certname is the name of the server's
// certificate; "" means the one in puppet.conf, or the only certificate.
func PlacesOf(h *host.Host, certname string) Places {
	defaults := places[slices.Index(layouts, LayoutOf(h))]
	code, data, ssl := defaults.code, defaults.data, defaults.ssl
	for _, o := range []struct {
		to  *string
		key string
	}{{&code, "master-code-dir"}, {&code, "server-code-dir"}, {&data, "master-var-dir"}, {&data, "server-var-dir"}} {
		if at, ok, err := Option(h, "jruby-puppet."+o.key, own); err == nil && ok && path.IsAbs(Value(at)) {
			*o.to = path.Clean(Value(at))
		}
	}
	setting := func(key, otherwise string) string {
		v, _, ok, err := Setting(h, key)
		v, _, _ = strings.Cut(v, " ") // cut options such as { mode = 0640 }
		v = strings.Replace(v, "$codedir", code, 1)
		v = strings.Replace(v, "$ssldir", ssl, 1)
		if err != nil || !ok || strings.ContainsAny(v, "$:") || !path.IsAbs(v) {
			return otherwise
		}
		return path.Clean(v)
	}
	ssl = setting("ssldir", ssl)
	p := Places{Environments: setting("environmentpath", code+"/environments"), Data: data, CA: ssl + "/certs/ca.pem", CRL: setting("hostcrl", ssl+"/crl.pem")}
	for _, dir := range []string{setting("cadir", defaults.ca), ssl + "/ca"} {
		if _, err := h.Files.Stat(dir + "/ca_crl.pem"); err == nil {
			p.CRL = dir + "/ca_crl.pem"
			break
		}
	}
	if certname == "" {
		certname, _, _, _ = Setting(h, "certname")
	}
	if certname == "" {
		certname = only(h, ssl+"/certs")
	}
	if certname != "" && !strings.ContainsAny(certname, "/ $") {
		p.Certificate, p.Key = ssl+"/certs/"+certname+".pem", ssl+"/private_keys/"+certname+".pem"
	}
	return p
}

// only returns the name of a directory's only certificate, apart from the CA's; "" if there are
// several.
func only(h *host.Host, dir string) string {
	list, err := h.Files.ReadDir(dir)
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range list {
		if name, ok := strings.CutSuffix(e.Name(), ".pem"); ok && name != "ca" {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return names[0]
	}
	return ""
}

// NotForAll returns the auth.conf rule that denies some nodes the metadata and content of modules'
// files, as FILE:LINE and a reason; "" if none exists.
func NotForAll(h *host.Host) (string, error) {
	file := path.Join(LayoutOf(h).Options, "auth.conf")
	text, err := h.Files.ReadFile(file)
	if err != nil {
		return "", err
	}
	all, err := (&parser{text: string(text), line: 1, lists: true}).all()
	if err != nil {
		return "", fmt.Errorf("%s:%w", file, err)
	}
	type authRule struct {
		line  int
		about bool
		all   bool
	}
	rules := map[string]*authRule{}
	var order []string
	for _, a := range all {
		rest, ok := strings.CutPrefix(a.Key, "authorization.rules[")
		if !ok {
			continue
		}
		number, key, ok := strings.Cut(rest, "].")
		if !ok {
			continue
		}
		r := rules[number]
		if r == nil {
			r = &authRule{}
			rules[number], order = r, append(order, number)
		}
		switch value := (syntax{}).Unquote(a.Literal); key {
		case "match-request.path":
			r.line = a.Line
			r.about = strings.Contains(value, "file_metadata") || strings.Contains(value, "static_file_content")
		case "allow", "allow[0]":
			r.all = r.all || value == "*"
		case "allow-unauthenticated":
			r.all = r.all || value == "true"
		}
	}
	about := 0
	for _, number := range order {
		r := rules[number]
		if !r.about {
			continue
		}
		about++
		if !r.all {
			return fmt.Sprintf("%s:%d does not allow all nodes to read them", file, r.line), nil
		}
	}
	if about == 0 {
		return file + " has no rule for file_metadata", nil
	}
	return "", nil
}
