// Package loadcli is the part of the verb load that fettle and kubectl fettle share: the
// flags of an HTTP load and of a scenario, the plan and the job made of them, the display of a
// load in progress, the record of created objects, and the exit code of a result.
package loadcli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Options are the options of an HTTP load, whichever machines generate it.
type Options struct {
	Rate, Steps                 string
	Connections, MaxConnections int
	Length, WarmUp, Timeout     time.Duration
	Method, Body, URLs          string
	Headers, Allow, Expect      []string
	Close, HTTP2                bool
	Streams                     int
	Wanted                      []int
	ConnectTo, Resume           string
	FindKnee                    bool
	Identity
	// Requests is the number of requests per connection; 0 means as many as possible in Length.
	Requests int64
	// Example is a URL, with flags that it needs, for hints.
	Example []string
	// Given reports whether a flag was given.
	Given func(flag string) bool
	// Unobserved is the error for a threshold about a server's own load, if none is observed.
	Unobserved func(threshold string) error
}

// Limits of the options.
const (
	maxFile = 16 << 20 // bytes of a file named by an option
	// MaxRun is the maximum duration of a load.
	MaxRun = 7 * 24 * time.Hour
	// requestsRun is the default time limit of a number of requests.
	requestsRun = time.Hour
)

// Methods are the HTTP methods that completion offers.
var Methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// Flags adds the flags, with the checks of their values.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Rate, "rate", "", "request rate, such as 500/s or 30/min, or a ramp such as 100/s..1000/s")
	f.StringVar(&o.Steps, "steps", "", "request rates, one after the other, each for the time in --for, such as 100/s,200/s,400/s")
	f.IntVarP(&o.Connections, "connections", "c", 0, "without --rate: number of connections; each sends one request after the other")
	f.DurationVar(&o.Length, "for", 30*time.Second, "duration of the load, such as 30s or 5m; with --steps: duration of each step")
	cliutil.AlsoCalled(f, "for", "duration", "time")
	f.DurationVar(&o.WarmUp, "warm-up", 0, "warm up at the first rate for this time, not counted, such as 10s")
	f.IntVar(&o.MaxConnections, "max-connections", 1000, "maximum number of connections with --rate")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Second, "time limit of a response, such as 10s")
	f.StringVarP(&o.Method, "method", "X", "", "HTTP method (default GET, or POST with --body)")
	f.StringArrayVarP(&o.Headers, "header", "H", nil, "a header 'NAME: VALUE', or @FILE with one per line; repeatable")
	f.StringVar(&o.Body, "body", "", "body of each request, or @FILE")
	f.StringVar(&o.URLs, "urls", "", "file with lines WEIGHT METHOD URL, instead of URLs")
	f.BoolVar(&o.Close, "close", false, "open a new connection for each request")
	f.BoolVar(&o.HTTP2, "http2", false, "use HTTP/2")
	f.IntVar(&o.Streams, "streams", 1, "with --http2: concurrent requests on each connection")
	f.IntSliceVar(&o.Wanted, "ok-status", nil, "status codes of 400 and above that do not count as errors, such as 404,410")
	f.StringArrayVar(&o.Allow, "allow", nil, "HOST:PORT or network that may be loaded; repeatable; loopback is always allowed")
	f.StringVar(&o.ConnectTo, "connect-to", "", "connect to this HOST:PORT instead of the host and port in the URLs")
	f.StringArrayVar(&o.Expect, "expect", nil, "exit with 3 unless this is met: 'p99 < 200ms', 'errors < 1%', 'rate > 450/s'; repeatable")
	f.BoolVar(&o.FindKnee, "find-knee", false, "search for the highest rate that meets --expect, starting at --rate; --for is then the time of each stage (default 10s)")
	o.Identity.Flags(f)
	f.StringVar(&o.Resume, "tls-resume", "on", "resume TLS sessions on new connections: on or off")
	o.Given = f.Changed
	o.limits(f)
}

// limits adds the checks of the flags' values.
func (o *Options) limits(f *pflag.FlagSet) {
	reads := func(name, example string, read func(word string) error) { cliutil.Reads(f, name, example, read) }
	reads("rate", "100/s", func(word string) error { _, err := engine.ParseRate(word, time.Second); return err })
	reads("steps", "100/s,200/s", func(word string) error { _, err := engine.ParseSteps(word, time.Second); return err })
	reads("expect", "p99 < 200ms", func(word string) error { _, err := engine.ParseThreshold(word); return err })
	reads("ok-status", "404", errorStatuses)
	cliutil.OneOf(f, "tls-resume", "on", "off")
	cliutil.Between(f, "connections", 1, 100_000, 10)
	cliutil.Between(f, "max-connections", 1, 100_000, 1000)
	cliutil.Between(f, "streams", 1, 1000, 10)
	cliutil.Between(f, "for", time.Second, MaxRun, 30*time.Second)
	cliutil.Between(f, "warm-up", time.Second, MaxRun, 10*time.Second)
	cliutil.Between(f, "timeout", time.Millisecond, 10*time.Minute, 10*time.Second)
}

// errorStatuses rejects HTTP statuses that are not errors.
func errorStatuses(words string) error {
	for word := range strings.SplitSeq(words, ",") {
		if status, err := strconv.Atoi(word); err != nil || status < 400 || status > 599 {
			return errors.New("want comma-separated statuses from 400 to 599, such as 404,410")
		}
	}
	return nil
}

// Rules adds checks for flags that exclude or require each other. otherLoad are the flags that
// define a load in addition to --rate, --steps and --connections.
func (o *Options) Rules(c *cobra.Command, otherLoad ...string) {
	cliutil.Exclusive(c, append([]string{"rate", "steps", "connections"}, otherLoad...)...)
	cliutil.Check(c, func(args []string) error {
		if at := slices.IndexFunc(args, func(arg string) bool { return !strings.Contains(arg, "://") }); at >= 0 {
			return ui.OtherWord(fmt.Errorf("%q is not a URL such as http://HOST:PORT", args[at]), args[at], "http://"+args[at])
		}
		switch {
		case o.FindKnee && o.Rate == "":
			return ui.Retry(ui.Usage, errors.New("--find-knee needs the lowest rate (--rate 100/s) or both ends (--rate 100/s..5000/s)"), "", "--rate=100/s")
		case o.FindKnee && len(o.Expect) == 0:
			return ui.Retry(ui.Usage, errors.New("--find-knee needs a threshold: --expect 'p99 < 200ms', --expect 'errors < 1%'"), "", "--expect=p99 < 200ms")
		case o.Rate == "" && o.Steps == "" && !o.Given("connections") && !slices.ContainsFunc(otherLoad, o.Given) && !o.Given("requests"):
			more := []string{"--rate=100/s"}
			if len(args) == 0 {
				more = append(more, o.Example...)
			}
			return ui.Retry(ui.Usage, errors.New("no load given; want --rate 100/s, --steps 100/s,200/s or --connections 10"), "", more...)
		}
		return nil
	})
	cliutil.Requires(c, "--http2", "streams")
	cliutil.Excludes(c, "connections", "--connections already sets the number of connections", "max-connections")
	cliutil.Excludes(c, "http2", "only HTTP/1.1 has this option", "close")
	cliutil.Excludes(c, "urls", "the --urls file sets the method of each URL", "method")
	o.Identity.Rules(c)
	cliutil.Check(c, func([]string) error { return o.checkKnee() })
}

// Defaults sets the duration for the kind of load, unless --for was given. The flags are parsed.
func (o *Options) Defaults() {
	switch {
	case o.Given("for"):
	case o.FindKnee:
		o.Length = kneeStage
	case o.Given("requests"):
		o.Length = requestsRun
	}
}

// MostConnections returns the number of connections, or its maximum with --rate.
func (o *Options) MostConnections() (n int, flag string) {
	if o.Given("connections") {
		return o.Connections, "--connections"
	}
	return o.MaxConnections, "--max-connections"
}

// CheckGenerators returns an error for fewer connections than generators. what names them.
func (o *Options) CheckGenerators(n int, what string) error {
	if connections, flag := o.MostConnections(); connections < n {
		return ui.Instead(ui.Usage, fmt.Errorf("%s: too few for %s; each %s needs at least one", internaltext.Count(connections, "connection"), internaltext.Count(n, what), what), "", fmt.Sprintf("%s=%d", flag, n))
	}
	return nil
}

// Requested is what the options ask for: the job, from which any machine can generate the load,
// and the schedule.
type Requested struct {
	Job    *load.Job
	Stages []engine.Stage
	Gates  []*engine.Gate
	Replay *load.Log
}

// Read returns what the options ask for. It reads the files that they name, and resolves no
// names.
func (o *Options) Read(urls []string) (r *Requested, err error) {
	r = &Requested{}
	if r.Stages, err = o.Schedule(); err != nil {
		return nil, err
	}
	if r.Gates, err = o.Gates(); err != nil {
		return nil, err
	}
	r.Job, err = o.job(urls)
	return r, err
}

// Plan returns the plan of the load. Errors are usage errors, except for a target that is not
// allowed.
func (o *Options) Plan(ctx context.Context, r *Requested, resolver engine.Resolver) (*load.Plan, error) {
	p, err := r.Job.Plan(ctx, r.Job.Resolver(resolver))
	if err != nil {
		return nil, err
	}
	p.Stages, p.For, p.WarmUp, p.Gates, p.Replay, p.Each = r.Stages, o.Length, o.WarmUp, r.Gates, r.Replay, o.Requests
	if p.Length() > MaxRun {
		return nil, ui.Without(fmt.Errorf("the load would take %v in total; at most %v allowed", p.Length(), MaxRun), "--for")
	}
	secured := slices.ContainsFunc(p.Set.Origins, func(o engine.Origin) bool { return o.TLS })
	if !secured && (o.Files != engine.Files{} || o.Given("tls-resume")) {
		return nil, ui.Without(errors.New("certificates and --tls-resume need a URL with https://"), append(IdentityFlags, "--tls-resume")...)
	}
	return p, nil
}

// Schedule returns the stages of the rate, or none without a rate.
func (o *Options) Schedule() ([]engine.Stage, error) {
	switch {
	case o.Rate != "":
		stage, err := engine.ParseRate(o.Rate, o.Length)
		return []engine.Stage{stage}, cliutil.OfOption("--rate", err)
	case o.Steps != "":
		stages, err := engine.ParseSteps(o.Steps, o.Length)
		return stages, cliutil.OfOption("--steps", err)
	}
	return nil, nil
}

// Gates parses the thresholds of --expect.
func (o *Options) Gates() (gates []*engine.Gate, err error) {
	for _, text := range o.Expect {
		g, err := engine.ParseThreshold(text)
		switch {
		case err != nil:
			return nil, cliutil.OfOption("--expect", err)
		case g.Observed() && o.Unobserved != nil:
			return nil, o.Unobserved(text)
		case g.Asks() == engine.Rate && o.FindKnee:
			return nil, ui.Instead(ui.Usage, fmt.Errorf("--expect: %q: leave out the rate; --find-knee searches for it", text), "", "--expect=p99 < 200ms")
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// job returns the requests, with the contents of all files that they need. Without URLs and
// --urls it has no requests if another flag defines the load.
func (o *Options) job(urls []string) (*load.Job, error) {
	j := &load.Job{Allow: o.Allow, Identity: o.Files, Files: map[string][]byte{}, HTTP2: o.HTTP2, Streams: o.Streams, Close: o.Close, Resume: o.Resume == "on", Timeout: o.Timeout, Wanted: o.Wanted}
	j.Connections, _ = o.MostConnections()
	var err error
	if o.Rate != "" || o.Steps != "" || o.Given("connections") {
		if j.Asked, err = o.asked(urls); err != nil {
			return nil, err
		}
	}
	if j.Common, err = o.common(); err != nil {
		return nil, err
	}
	_, err = engine.Load(o.Files, func(name string) ([]byte, error) {
		text, err := ReadFile(name)
		j.Files[name] = text
		return text, err
	}, func() (string, error) {
		j.Passphrase, err = o.Passphrase()
		return j.Passphrase, err
	})
	return j, err
}

// asked returns the list of requests.
func (o *Options) asked(urls []string) (list []engine.Asked, err error) {
	switch {
	case o.URLs != "" && len(urls) > 0:
		return nil, ui.Without(errors.New("want --urls or URL arguments, not both"), "--urls")
	case o.URLs != "":
		text, err := ReadFile(o.URLs)
		if err != nil {
			return nil, cliutil.OfOption("--urls", err)
		}
		return engine.ReadList(o.URLs, bytes.NewReader(text))
	case len(urls) == 0:
		return nil, ui.Retry(ui.Usage, errors.New("want a URL"), "", o.Example...)
	}
	method := o.Method
	if method == "" {
		method = "GET"
		if o.Body != "" {
			method = "POST"
		}
	}
	for _, u := range urls {
		list = append(list, engine.Asked{Weight: 1, Method: method, URL: u})
	}
	return list, nil
}

// common returns the settings of all requests.
func (o *Options) common() (common engine.Common, err error) {
	common = engine.Common{Close: o.Close, ConnectTo: o.ConnectTo}
	for _, word := range o.Headers {
		text := []byte(word)
		where := "--header"
		if file, is := strings.CutPrefix(word, "@"); is {
			if text, err = ReadFile(file); err != nil {
				return common, cliutil.OfOption("--header", err)
			}
			where = file
		}
		fields, err := fieldsOf(where, text)
		if err != nil {
			return common, err
		}
		common.Header = append(common.Header, fields...)
	}
	if file, is := strings.CutPrefix(o.Body, "@"); is {
		common.Body, err = ReadFile(file)
		return common, cliutil.OfOption("--body", err)
	}
	if o.Body != "" {
		common.Body = []byte(o.Body)
	}
	return common, nil
}

// fieldsOf parses header lines. Its errors do not quote the lines, which may be secret.
func fieldsOf(where string, text []byte) (out []engine.Field, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		f, err := engine.ParseField(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", where, n, err)
		}
		out = append(out, f)
	}
	return out, cliutil.OfOption(where, lines.Err())
}

// ReadFile reads a file that a flag names. It returns an error for a file larger than 16 MiB.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, &fs.PathError{Op: "read", Path: name, Err: internaltext.Errorf("larger than %d MiB", maxFile>>20)}
	}
	return bytes.Clone(text), nil // without the spare capacity: there may be one for each of 10,000 hosts
}

// Prepare returns the maximum time in which a generator connects to all servers. It tries the
// addresses one after the other.
func Prepare(p *load.Plan) (all time.Duration) {
	for _, origin := range p.Set.Origins {
		all += time.Duration(len(origin.Sockets)) * p.Timeout
	}
	return all
}

// Gated returns an error with an exit code if a load missed a threshold or was incomplete.
func Gated(r *load.Result) error {
	if r.Knee != nil {
		return kneeCode(r)
	}
	failed := r.Failed()
	switch {
	case r.Word == load.Silent:
		return ui.Exit(ui.Failed, errors.New(r.Text))
	case len(failed) == 0:
		return nil
	case r.Word == load.Limited:
		return ui.Exit(ui.Failed, errors.New("thresholds not judged: the load generator was the limit"))
	}
	g := failed[0]
	where := ""
	if g.Stage != "" {
		where = " at " + g.Stage
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("threshold %s%s not met: %s", g.Gate, where, g.Text))
}
