package formats

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Config holds the log settings in the configurations of servers.
type Config struct {
	option string // command-line flag that names the configurations
	host   *host.Host
	logs   []accesslog.Log
}

// ReadConfig reads the configurations that a flag names. It returns nil if there are none.
func ReadConfig(h *host.Host, option string, paths []string) (*Config, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	c := &Config{option: option, host: h}
	for _, p := range paths {
		name, err := c.absolute(p)
		if err != nil {
			return nil, err
		}
		found, err := components.Logs(h, name)
		if err != nil {
			return nil, ui.Exit(ui.Usage, fmt.Errorf("%s: %w", option, err))
		}
		c.logs = append(c.logs, found...)
	}
	for i := range c.logs {
		l := &c.logs[i]
		if l.Path != "" && !strings.ContainsAny(path.Dir(l.Path), `*?[\`) {
			l.Path = c.resolved(l.Path)
		}
	}
	return c, nil
}

// absolute returns the absolute path on the host. With --root, it is inside the root.
func (c *Config) absolute(p string) (string, error) {
	if c.host.Live {
		return filepath.Abs(p)
	}
	return path.Clean("/" + p), nil
}

// resolved resolves the links in a path's directory: /etc/httpd/logs links to /var/log/httpd.
func (c *Config) resolved(p string) string {
	if dir, err := c.host.Files.Resolve(path.Dir(p)); err == nil && !strings.ContainsAny(dir, `*?[\`) {
		return path.Join(dir, path.Base(p))
	}
	return p
}

// Format returns the configured format of a file; head is the beginning of the file.
func (c *Config) Format(file string, head []byte) (*logformat.Format, error) {
	name := file
	if file != source.Stdin {
		var err error
		if name, err = c.absolute(file); err != nil {
			return nil, err
		}
		name = c.resolved(name)
	}
	l, why, err := accesslog.Of(c.logs, name)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("%s: %w", c.option, err), "leave out "+c.option+" to detect the format from the lines")
	}
	f, err := l.Compile()
	if err != nil {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("%s: %s: %w", c.option, file, err))
	}
	if why != "" {
		f.Why += ", " + why
	}
	if n, all := f.Reads(head); all > 0 {
		f.Why += text.Sprintf("; matches %d of the first %d lines", n, all)
	}
	return f, nil
}
