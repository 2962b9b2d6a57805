package puppetserver

import (
	"net"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
)

// Socket is an address on which the server's Jetty listens.
type Socket struct {
	TLS  bool
	Host string // from the file, or Jetty's default
	Port string
	At   string // FILE:LINE
}

// Address returns HOST:PORT.
func (s Socket) Address() string { return net.JoinHostPort(s.Host, s.Port) }

// Loopback reports whether only the machine itself can reach the socket.
func (s Socket) Loopback() bool {
	if s.Host == "localhost" || strings.HasPrefix(s.Host, "localhost.") {
		return true
	}
	ip := net.ParseIP(s.Host)
	return ip != nil && ip.IsLoopback()
}

// Sockets returns the sockets that the server's files configure. Defaults: host localhost, port
// 8080, or 8081 with TLS (trapperkeeper-webserver-jetty9, Configuring The Webserver Service).
func Sockets(h *host.Host) ([]Socket, error) {
	all, err := options(h, LayoutOf(h).Options)
	if err != nil {
		return nil, err
	}
	var objects []string
	found := map[string]*Socket{}
	for _, p := range all {
		object, port := strings.CutSuffix(p.Key, "port")
		if !port {
			var name bool
			if object, name = strings.CutSuffix(p.Key, "host"); !name {
				continue
			}
		}
		if !of(object) {
			continue
		}
		s := found[object]
		if s == nil {
			s = &Socket{Host: "localhost", Port: "8080"}
			if s.TLS = strings.HasSuffix(object, "ssl-"); s.TLS {
				s.Port = "8081"
			}
			found[object] = s
			objects = append(objects, object)
		}
		if s.At = p.String(); port {
			s.Port = Value(p)
		} else {
			s.Host = Value(p)
		}
	}
	var out []Socket
	for _, object := range objects {
		out = append(out, *found[object])
	}
	return out, nil
}

// of reports whether a configuration path without its final "host" or "port" is a listener of
// Jetty, such as "webserver." or "webserver.NAME.ssl-".
func of(object string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(object, "ssl-"), "webserver.")
	return ok && (rest == "" || strings.HasSuffix(rest, ".") && strings.Count(rest, ".") == 1)
}

// options returns the assignments in all files of a directory, in order.
func options(h *host.Host, dir string) ([]conf.Place, error) {
	files, err := optionFiles(h, dir)
	if err != nil {
		return nil, err
	}
	var out []conf.Place
	for _, file := range files {
		all, err := conf.PlacesIn(h, syntax{}, file)
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}
