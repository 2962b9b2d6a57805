package puppetserver

import (
	"net"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/component/conf"
	"fettle.dev/fettle/internal/host"
)

// Listens are the addresses, with ports, at which the server's Jetty listens, as its
// files say, and where they do. One without a host listens on localhost alone (Trapperkeeper's
// jetty-config).
func Listens(h *host.Host) (addresses []string, at string, err error) {
	dir := LayoutOf(h).Options
	all, err := options(h, dir)
	if err != nil {
		return nil, "", err
	}
	hosts := map[string]string{}
	for _, p := range all {
		if object, ok := strings.CutSuffix(p.Key, "host"); ok && of(object) {
			hosts[object] = Value(p)
		}
	}
	at = dir
	for _, p := range all {
		object, ok := strings.CutSuffix(p.Key, "port")
		if !ok || !of(object) {
			continue
		}
		name := "localhost"
		if h, ok := hosts[object]; ok {
			name = h
		}
		if address := net.JoinHostPort(name, Value(p)); !slices.Contains(addresses, address) {
			addresses, at = append(addresses, address), p.String()
		}
	}
	return addresses, at, nil
}

// of says whether a path of the configuration, without the "host" or "port" at its end,
// is of one of Jetty's listeners: "webserver.", "webserver.NAME.ssl-".
func of(object string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(object, "ssl-"), "webserver.")
	return ok && (rest == "" || strings.HasSuffix(rest, ".") && strings.Count(rest, ".") == 1)
}

// options are all that the files of a directory set, in their order.
func options(h *host.Host, dir string) ([]conf.Place, error) {
	list, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".conf") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	var out []conf.Place
	for _, name := range names {
		file := dir + "/" + name
		all, err := assignments(h, file)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			out = append(out, conf.Place{File: file, Assignment: a})
		}
	}
	return out, nil
}
