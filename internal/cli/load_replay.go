package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

// replayOptions are those of --replay.
type replayOptions struct {
	logs, methods []string
	format        string
	speed         float64
}

// safe are the methods that are sent again without being asked for: they change nothing on
// the server (RFC 9110, 9.2.1).
var safe = []string{"GET", "HEAD"}

// check says what does not go together.
func (r replayOptions) check(o loadHTTPOptions) error {
	if len(r.logs) == 0 {
		for _, flag := range []string{"speed", "replay-method", "replay-format"} {
			if o.given(flag) {
				return ui.Without(fmt.Errorf("--%s is for --replay", flag), "--"+flag)
			}
		}
		return nil
	}
	for _, flag := range []string{"urls", "method", "body", "warm-up", "find-knee"} {
		if o.given(flag) {
			return ui.Without(fmt.Errorf("--%s does not go with --replay: the log says what is asked, and when", flag), "--"+flag)
		}
	}
	return nil
}

// read makes the schedule of the logs. urls is the server that is asked instead of the one
// that wrote them.
func (r replayOptions) read(ctx context.Context, urls []string, o loadHTTPOptions) (*load.Log, []engine.Asked, error) {
	if len(urls) != 1 {
		return nil, nil, errors.New("--replay wants one server, as in: fettle load http --replay access.log http://localhost:8080")
	}
	base, err := url.Parse(urls[0])
	if err != nil || base.Scheme == "" || base.Host == "" || base.User != nil || base.Path != "" && base.Path != "/" || base.RawQuery != "" || base.Fragment != "" {
		return nil, nil, errors.New("--replay wants a server without a path, as http://localhost:8080: the paths are the log's")
	}
	found, err := source.Find(host.Live(), r.logs)
	if err != nil {
		return nil, nil, ofOption("--replay", err)
	}
	set := source.NewSet(found)
	formats, err := logsOptions{format: r.format, noDurations: true, command: o.command, formatFlag: "--replay-format", say: o.say}.formats(set)
	if err != nil {
		return nil, nil, ofOption("--replay", err)
	}
	asked := load.Options{Base: base.Scheme + "://" + base.Host, Methods: slices.Concat(safe, r.methods), Speed: r.speed}
	if o.given("for") {
		asked.Most = o.length
	}
	l, list, err := load.Read(ctx, set, formats, asked)
	return l, list, ofOption("--replay", err)
}
