package httpd

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// errNoInfo is returned if the running server's configuration has no server-info.
var errNoInfo = errors.New("no <Location> has SetHandler server-info")

// infoMost is the size limit of a response of server-info, in bytes.
const infoMost = 16 << 20

// askInfo queries the running server for the directives that it has read (mod_info,
// server-info?config). It needs a Location with server-info in the files, and uses loopback without
// TLS or credentials.
func askInfo(ctx context.Context, i *installed) (settings, error) {
	if i.FileErr != nil {
		return settings{}, errNoInfo
	}
	at := i.Files.infoPath()
	var sockets []string
	for _, l := range i.Files.listen {
		name, port, err := net.SplitHostPort(address(l))
		if ip, bad := netip.ParseAddr(name); err == nil && bad == nil && ip.IsLoopback() && len(sockets) < 4 {
			sockets = append(sockets, net.JoinHostPort(name, port))
		}
	}
	if at == "" || len(sockets) == 0 {
		return settings{}, errNoInfo
	}
	page, err := host.QueryJSON(ctx, i.Host, "httpd "+i.Main+": "+at, func(ctx context.Context, _ *host.Host) (page string, err error) {
		for _, socket := range sockets {
			if page, err = get(ctx, "http://"+socket+at); err == nil {
				return page, nil
			}
		}
		return "", err
	})
	if err != nil {
		return settings{}, err
	}
	s := i.Files
	return s, s.replace(infoText(page))
}

// infoPath returns the path of the Location with server-info, or "".
func (s settings) infoPath() string {
	for n, p := range s.all {
		scope, ok := strings.CutSuffix(p.Key, "/sethandler")
		if at := strings.LastIndex(scope, "location /"); ok && s.values[n] == "server-info" && at >= 0 {
			return scope[at+len("location "):] + "?config"
		}
	}
	return ""
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Host = "localhost"
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, infoMost))
	return string(text), err
}

var (
	infoLine = text.LazyRegexp(`<dd><tt>(.*?)</tt></dd>`)
	infoTags = strings.NewReplacer("<i>", "", "</i>", "", "<strong>", "", "</strong>", "")
)

// infoText converts a page of server-info?config to the format of DUMP_CONFIG.
func infoText(page string) string {
	var out strings.Builder
	for _, m := range infoLine().FindAllStringSubmatch(page, -1) {
		text := strings.ReplaceAll(html.UnescapeString(infoTags.Replace(m[1])), "\u00a0", " ")
		if strings.HasPrefix(text, "In file: ") {
			out.WriteString("# " + text + "\n")
			continue
		}
		number, line, _ := strings.Cut(text, ":")
		if number = strings.TrimSpace(number); number != "" {
			out.WriteString("# " + number + ":\n")
		}
		out.WriteString(strings.TrimSpace(line) + "\n")
	}
	return out.String()
}

// running returns a directive's reported value and its position; ok is false if the server does not
// report it.
func running(i *installed, key string) (value, at string, ok bool) {
	if slices.Contains(atStart, key) {
		return "", "", false
	}
	if t, ok := i.Report.value(key); ok {
		return t.value, "server-info, " + t.at.String(), true
	}
	p := parameter(key)
	if _, inFile := i.Files.value(key); !inFile || p == nil || p.Default == "" {
		return "", "", false
	}
	return p.Default, "the default of httpd (server-info)", true // the value in the file is not yet in force
}
