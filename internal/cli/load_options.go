package cli

import (
	"bufio"
	"bytes"
	"cmp"
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

type loadHTTPOptions struct {
	rate, steps                 string
	connections, maxConnections int
	requests                    int64
	length, warmUp, timeout     time.Duration
	method, body, urls          string
	headers, allow, expect      []string
	close, http2                bool
	streams                     int
	wanted                      []int
	connectTo, resume           string
	identityOptions
	findKnee                         bool
	observe, clients, clientCommands []string
	replay                           replayOptions
	manifest                         bool
	image                            string
	given                            func(flag string) bool
	recorded                         string // command line for the record
	// say is called with a message for each ignored file in a log's directory.
	say func(string)
	// command is the command line, which errors about a log quote.
	command string
}

// Limits of the options.
const (
	maxFile = 16 << 20 // bytes of a file named by an option
	maxRun  = 7 * 24 * time.Hour
	// maxRequests is the maximum number of requests of one connection. requestsRun is the
	// default limit of their duration.
	maxRequests = 1_000_000_000
	requestsRun = time.Hour
)

// limits adds the checks of the flags' values.
func (o *loadHTTPOptions) limits(f *pflag.FlagSet) {
	reads := func(name, example string, read func(word string) error) { cliutil.Reads(f, name, example, read) }
	reads("rate", "100/s", func(word string) error { _, err := engine.ParseRate(word, time.Second); return err })
	reads("steps", "100/s,200/s", func(word string) error { _, err := engine.ParseSteps(word, time.Second); return err })
	reads("expect", "p99 < 200ms", func(word string) error { _, err := engine.ParseThreshold(word); return err })
	reads("ok-status", "404", errorStatuses)
	for _, name := range []string{"observe", "clients"} {
		reads(name, "ssh:web1.example", sshHosts(name == "observe"))
	}
	cliutil.OneOf(f, "tls-resume", "on", "off")
	cliutil.Between(f, "connections", 1, 100_000, 10)
	cliutil.Between[int64](f, "requests", 1, maxRequests, 1000)
	cliutil.Between(f, "max-connections", 1, 100_000, 1000)
	cliutil.Between(f, "streams", 1, 1000, 10)
	cliutil.Between(f, "for", time.Second, maxRun, 30*time.Second)
	cliutil.Between(f, "warm-up", time.Second, maxRun, 10*time.Second)
	cliutil.Between(f, "timeout", time.Millisecond, 10*time.Minute, 10*time.Second)
	cliutil.Between(f, "speed", 0.001, 1000.0, 1)
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

// rules adds checks for flags that exclude or require each other.
func (o *loadHTTPOptions) rules(c *cobra.Command) {
	cliutil.Exclusive(c, "rate", "steps", "connections", "replay")
	cliutil.Check(c, func(args []string) error {
		if at := slices.IndexFunc(args, func(arg string) bool { return !strings.Contains(arg, "://") }); at >= 0 {
			return ui.OtherWord(fmt.Errorf("%q is not a URL such as http://HOST:PORT", args[at]), args[at], "http://"+args[at])
		}
		switch {
		case o.findKnee && o.rate == "":
			return ui.Retry(ui.Usage, errors.New("--find-knee needs the lowest rate (--rate 100/s) or both ends (--rate 100/s..5000/s)"), "", "--rate=100/s")
		case o.findKnee && len(o.expect) == 0:
			return ui.Retry(ui.Usage, errors.New("--find-knee needs a threshold: --expect 'p99 < 200ms', --expect 'errors < 1%'"), "", "--expect=p99 < 200ms")
		case o.rate == "" && o.steps == "" && !o.given("connections") && len(o.replay.logs) == 0 && !o.given("requests"):
			more := []string{"--rate=100/s"}
			if len(args) == 0 {
				more = append(more, "http://localhost:8080/")
			}
			return ui.Retry(ui.Usage, errors.New("no load given; want --rate 100/s, --steps 100/s,200/s or --connections 10"), "", more...)
		}
		return nil
	})
	cliutil.Requires(c, "--connections=10", "requests")
	cliutil.Requires(c, "--http2", "streams")
	cliutil.Requires(c, "--replay", "speed", "replay-method", "replay-format")
	cliutil.Requires(c, "--manifest", "image")
	cliutil.Excludes(c, "requests", "use --for instead of --requests", "warm-up", "clients", "client-command")
	cliutil.Excludes(c, "connections", "--connections already sets the number of connections", "max-connections")
	cliutil.Excludes(c, "http2", "only HTTP/1.1 has this option", "close")
	cliutil.Excludes(c, "urls", "the --urls file sets the method of each URL", "method")
	cliutil.Excludes(c, "replay", "the log sets the requests and their times", "urls", "method", "body", "warm-up", "find-knee")
	cliutil.Excludes(c, "replay", "a replay has one generator", "clients", "client-command")
	o.identityRules(c)
	cliutil.Check(c, func([]string) error { return cmp.Or(o.checkKnee(), o.checkPlaces()) })
}

// plan returns the plan of the load, and a job from which other machines can generate it.
// Errors are usage errors, except for a target that is not allowed.
func (o loadHTTPOptions) plan(ctx context.Context, urls []string, resolver engine.Resolver) (*load.Plan, *load.Job, error) {
	stages, err := o.stages()
	if err != nil {
		return nil, nil, err
	}
	gates, err := o.gates()
	if err != nil {
		return nil, nil, err
	}
	job, err := o.job(urls)
	if err != nil {
		return nil, nil, err
	}
	var replayed *load.Log
	if len(o.replay.logs) > 0 {
		if replayed, job.Asked, err = o.replay.read(ctx, urls, o); err != nil {
			return nil, nil, err
		}
	}
	p, err := job.Plan(ctx, job.Resolver(resolver))
	if err != nil {
		return nil, nil, err
	}
	p.Stages, p.For, p.WarmUp, p.Gates, p.Replay, p.Each = stages, o.length, o.warmUp, gates, replayed, o.requests
	if p.Length() > maxRun {
		return nil, nil, ui.Without(fmt.Errorf("the load would take %v in total; at most %v allowed", p.Length(), maxRun), "--for")
	}
	secured := slices.ContainsFunc(p.Set.Origins, func(o engine.Origin) bool { return o.TLS })
	if !secured && (o.files != engine.Files{} || o.given("tls-resume")) {
		return nil, nil, ui.Without(errors.New("certificates and --tls-resume need a URL with https://"), append(identityOptionNames, "--tls-resume")...)
	}
	return p, job, nil
}

// stages returns the stages of the rate, or none without a rate.
func (o loadHTTPOptions) stages() ([]engine.Stage, error) {
	switch {
	case o.rate != "":
		stage, err := engine.ParseRate(o.rate, o.length)
		return []engine.Stage{stage}, ofOption("--rate", err)
	case o.steps != "":
		stages, err := engine.ParseSteps(o.steps, o.length)
		return stages, ofOption("--steps", err)
	}
	return nil, nil
}

// gates parses the thresholds of --expect.
func (o loadHTTPOptions) gates() (gates []*engine.Gate, err error) {
	for _, text := range o.expect {
		g, err := engine.ParseThreshold(text)
		switch {
		case err != nil:
			return nil, ofOption("--expect", err)
		case g.Observed() && len(o.observe) == 0:
			return nil, ui.Retry(ui.Usage, fmt.Errorf("--expect: %q: no machine is observed; add --observe local or --observe ssh:HOST", text), "", "--observe=local")
		case g.Asks() == engine.Rate && o.findKnee:
			return nil, ui.Instead(ui.Usage, fmt.Errorf("--expect: %q: leave out the rate; --find-knee searches for it", text), "", "--expect=p99 < 200ms")
		}
		gates = append(gates, g)
	}
	return gates, nil
}

func ofOption(option string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// job returns the requests, with the contents of all files that they need.
func (o loadHTTPOptions) job(urls []string) (*load.Job, error) {
	j := &load.Job{Allow: o.allow, Identity: o.files, Files: map[string][]byte{}, Connections: o.maxConnections, HTTP2: o.http2, Streams: o.streams, Close: o.close, Resume: o.resume == "on", Timeout: o.timeout, Wanted: o.wanted}
	if o.given("connections") {
		j.Connections = o.connections
	}
	var err error
	if len(o.replay.logs) == 0 {
		if j.Asked, err = o.asked(urls); err != nil {
			return nil, err
		}
	}
	if j.Common, err = o.common(); err != nil {
		return nil, err
	}
	_, err = engine.Load(o.files, func(name string) ([]byte, error) {
		text, err := readCapped(name)
		j.Files[name] = text
		return text, err
	}, func() (string, error) {
		j.Passphrase, err = o.passphrase()
		return j.Passphrase, err
	})
	return j, err
}

// asked returns the list of requests.
func (o loadHTTPOptions) asked(urls []string) (list []engine.Asked, err error) {
	switch {
	case o.urls != "" && len(urls) > 0:
		return nil, ui.Without(errors.New("want --urls or URL arguments, not both"), "--urls")
	case o.urls != "":
		text, err := readCapped(o.urls)
		if err != nil {
			return nil, ofOption("--urls", err)
		}
		return engine.ReadList(o.urls, bytes.NewReader(text))
	case len(urls) == 0:
		return nil, ui.Retry(ui.Usage, errors.New("want a URL"), "", "http://localhost:8080/")
	}
	method := o.method
	if method == "" {
		method = "GET"
		if o.body != "" {
			method = "POST"
		}
	}
	for _, u := range urls {
		list = append(list, engine.Asked{Weight: 1, Method: method, URL: u})
	}
	return list, nil
}

// common returns the settings of all requests.
func (o loadHTTPOptions) common() (common engine.Common, err error) {
	common = engine.Common{Close: o.close, ConnectTo: o.connectTo}
	for _, word := range o.headers {
		text := []byte(word)
		where := "--header"
		if file, is := strings.CutPrefix(word, "@"); is {
			if text, err = readCapped(file); err != nil {
				return common, ofOption("--header", err)
			}
			where = file
		}
		fields, err := fieldsOf(where, text)
		if err != nil {
			return common, err
		}
		common.Header = append(common.Header, fields...)
	}
	if file, is := strings.CutPrefix(o.body, "@"); is {
		common.Body, err = readCapped(file)
		return common, ofOption("--body", err)
	}
	if o.body != "" {
		common.Body = []byte(o.body)
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
	return out, ofOption(where, lines.Err())
}

// readCapped reads a file that a flag names, of at most maxFile bytes.
func readCapped(name string) ([]byte, error) {
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
	return text, nil
}

// enoughFiles returns an error if this process may not open files for all connections.
func enoughFiles(p *load.Plan) error {
	each := len(p.Set.Origins)
	return mayOpen(p.Connections*each, internaltext.Sprintf("%s to %d servers", internaltext.Count(p.Connections, "connection"), each))
}

// mayOpen returns an error if this process may not open that many connections in addition to
// its own files. what describes the connections.
func mayOpen(connections int, what string) error {
	limit, err := engine.OpenFiles()
	if err != nil {
		return err
	}
	if need := uint64(connections) + engine.OwnFiles; need > limit {
		return &ui.Error{Code: ui.Refused, Err: internaltext.Errorf("%s need %s, but the limit of this process is %d", what, internaltext.Count(need, "open file"), limit),
			Hint: "or use fewer connections", Remedy: &ui.Remedy{Before: fmt.Sprintf("sudo prlimit --pid $$ --nofile=%d", need)}}
	}
	return nil
}
