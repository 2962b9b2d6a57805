package cli

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/source"
)

// replayOptions are the options of --replay.
type replayOptions struct {
	logs, methods []string
	format        string
	speed         float64
}

// safe lists the methods that are replayed by default. They change nothing on the server (RFC
// 9110, 9.2.1).
var safe = []string{"GET", "HEAD"}

// read creates a schedule from the logs. urls has the server to load, instead of the one that
// wrote the logs.
func (r replayOptions) read(ctx context.Context, urls []string, o loadHTTPOptions) (*load.Log, []engine.Asked, error) {
	if len(urls) != 1 {
		return nil, nil, errors.New("--replay needs exactly one server: fettle load http --replay access.log http://localhost:8080")
	}
	base, err := url.Parse(urls[0])
	if err != nil || base.Scheme == "" || base.Host == "" || base.User != nil || base.Path != "" && base.Path != "/" || base.RawQuery != "" || base.Fragment != "" {
		return nil, nil, errors.New("--replay takes the paths from the log; want a server without a path, such as http://localhost:8080")
	}
	found, err := source.Find(host.Live(), r.logs)
	if err != nil {
		return nil, nil, cliutil.OfOption("--replay", err)
	}
	set := source.NewSet(found)
	logFormats, err := (&formats.Finder{Format: r.format, NoDurations: true, Command: o.command, Flag: "--replay-format", Say: o.say}).Find(set)
	if err != nil {
		return nil, nil, cliutil.OfOption("--replay", err)
	}
	asked := load.Options{Base: base.Scheme + "://" + base.Host, Methods: slices.Concat(safe, r.methods), Speed: r.speed}
	if o.Given("for") {
		asked.Most = o.Length
	}
	l, list, err := load.Read(ctx, set, logFormats, asked)
	return l, list, cliutil.OfOption("--replay", err)
}
