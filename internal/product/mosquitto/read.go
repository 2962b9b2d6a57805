package mosquitto

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// instances returns the main file, if it exists.
func instances(h *host.Host) ([]conf.Instance, error) {
	const main = "/etc/mosquitto/mosquitto.conf"
	switch _, err := h.Files.Stat(main); {
	case err == nil:
		return []conf.Instance{{Name: "mosquitto", Main: main}}, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	}
	return nil, nil
}

func rootsOf(*host.Host) []string { return []string{"/etc"} }

// maxFiles is the maximum number of files that are read.
const maxFiles = 1000

// settings holds the options that mosquitto reads for one instance.
type settings struct {
	all   []conf.Place // in reading order
	files []string     // the main one first
}

// get returns the last line that sets a key, which applies.
func (s settings) get(key string) (conf.Place, bool) { return conf.Last(s.all, key) }

// Paths implements product.Files.
func (s settings) Paths() []string { return s.files }

// Value implements product.Files.
func (s settings) Value(key string) (value, at string, ok bool, err error) {
	p, ok := s.get(key)
	return p.Literal, p.String(), ok, nil
}

func (s settings) place(key string) (conf.Place, bool, error) {
	p, ok := s.get(key)
	return p, ok, nil
}

func (s settings) text(key, def string) string {
	if p, ok := s.get(key); ok {
		return p.Literal
	}
	return def
}

// readSettings reads the main file and the directories that it includes, in order. Like mosquitto,
// it ignores include_dir in other files.
func readSettings(h *host.Host, main string) (settings, error) {
	var s settings
	includes := conf.Includes{From: h.Files, Depth: 3, Most: maxFiles}
	var read func(name string) error
	read = func(name string) error {
		return includes.File(name, func(text string) error {
			all, err := conf.Places(syntax{}, name, text)
			if err != nil {
				return err
			}
			for _, at := range all {
				switch {
				case at.Key != "include_dir":
					s.all = append(s.all, at)
					continue
				case name != main:
					continue
				case !strings.HasPrefix(at.Literal, "/"):
					return fmt.Errorf("%s: include_dir %s is relative to mosquitto's unknown working directory; use an absolute path", at, at.Literal)
				}
				err := includes.Dir(path.Clean(at.Literal), func(paths []string) error {
					paths = slices.DeleteFunc(paths, func(p string) bool { return !strings.HasSuffix(p, ".conf") || len(path.Base(p)) <= len(".conf") })
					slices.SortFunc(paths, inOrder)
					for _, p := range paths {
						if err := read(p); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
			}
			return nil
		})
	}
	err := read(main)
	s.files = includes.Read
	return s, err
}

// inOrder compares names in mosquitto's order, ignoring case. Upper case sorts before lower case in
// otherwise equal names (src/conf.c, scmp_p).
func inOrder(a, b string) int {
	for i := range min(len(a), len(b)) {
		x, y := fold(a[i]), fold(b[i])
		if c := cmp.Or(cmp.Compare(x, y), cmp.Compare(a[i], b[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func fold(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// listener is an address for clients.
type listener struct {
	key              string // "" for the default listener
	network, address string
	// plain is true without TLS and WebSocket.
	plain bool
}

// listeners returns the broker's listeners. Since 2.0 the default listener is port 1883 on the
// loopback.
func (s settings) listeners() []listener {
	var out []listener
	add := func(key, port, at string) {
		l := listener{key: key, network: "tcp", plain: true}
		prefix := ""
		if key != "" {
			prefix = key + "/"
		}
		for _, option := range []string{"cafile", "capath", "certfile", "keyfile", "psk_hint"} {
			if _, ok := s.get(prefix + option); ok {
				l.plain = false
			}
		}
		l.plain = l.plain && s.text(prefix+"protocol", "mqtt") == "mqtt"
		l.address = net.JoinHostPort(product.Loopback(at), port)
		if port == "0" && strings.HasPrefix(at, "/") {
			l.network, l.address = "unix", at
		}
		out = append(out, l)
	}
	if p, ok := s.get("port"); ok {
		add("", p.Literal, s.text("bind_address", ""))
	}
	for _, p := range s.all {
		if p.Key == "listener" {
			fields := strings.Fields(p.Literal)
			add("listener "+strings.Join(fields, " "), fields[0], strings.Join(fields[1:], " "))
		}
	}
	if len(out) == 0 {
		add("", "1883", s.text("bind_address", ""))
	}
	return out
}

// connections returns the total number of clients that the listeners accept, or -1 if one has no
// limit. at is the position of the first limit.
func (s settings) connections() (sum float64, at string) {
	for _, l := range s.listeners() {
		key := "max_connections"
		if l.key != "" {
			key = l.key + "/" + key
		}
		p, ok := s.get(key)
		n, err := strconv.ParseInt(p.Literal, 10, 32)
		if !ok || err != nil || n < 0 {
			return -1, ""
		}
		sum += float64(n)
		at = cmp.Or(at, p.String())
	}
	return sum, at
}
