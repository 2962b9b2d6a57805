package cli

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
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/load"
	"fettle.dev/fettle/internal/load/exchange"
	"fettle.dev/fettle/internal/load/identity"
	"fettle.dev/fettle/internal/load/rate"
	"fettle.dev/fettle/internal/load/target"
	"fettle.dev/fettle/internal/load/threshold"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/ui"
)

type loadHTTPOptions struct {
	rate, steps                          string
	connections, maxConnections          int
	length, warmUp, timeout              time.Duration
	method, body, urls                   string
	headers, allow, expect               []string
	close, http2                         bool
	streams                              int
	wanted                               []int
	connectTo, passFile, passEnv, resume string
	files                                identity.Files
	given                                func(flag string) bool
}

// Limits of the options.
const (
	maxFile = 16 << 20 // of a file that an option names, in bytes
	maxRun  = 7 * 24 * time.Hour
)

// check says which options do not go together or make no sense.
func (o loadHTTPOptions) check() error {
	models := 0
	for _, flag := range []string{"rate", "steps", "connections"} {
		if o.given(flag) {
			models++
		}
	}
	switch {
	case models == 0:
		return errors.New("how much? want --rate 100/s, --steps 100/s,200/s or --connections 10")
	case models > 1:
		return errors.New("want one of --rate, --steps and --connections")
	case o.given("connections") && (o.connections < 1 || o.connections > 100_000):
		return fmt.Errorf("--connections %d: want a number from 1 to 100000", o.connections)
	case o.given("connections") && o.given("max-connections"):
		return errors.New("--max-connections is for a rate: --connections has as many as it says")
	case o.maxConnections < 1 || o.maxConnections > 100_000:
		return fmt.Errorf("--max-connections %d: want a number from 1 to 100000", o.maxConnections)
	case o.length < time.Second || o.length > maxRun:
		return fmt.Errorf("--for %v: want from 1s to %v", o.length, maxRun)
	case o.warmUp < 0 || o.warmUp > maxRun || o.warmUp > 0 && o.warmUp < time.Second:
		return fmt.Errorf("--warm-up %v: want from 1s to %v", o.warmUp, maxRun)
	case o.timeout < time.Millisecond || o.timeout > 10*time.Minute:
		return fmt.Errorf("--timeout %v: want from 1ms to 10m", o.timeout)
	case o.http2 && o.close:
		return errors.New("--close is for HTTP/1.1")
	case !o.http2 && o.given("streams"):
		return errors.New("--streams is for --http2")
	case o.streams < 1 || o.streams > 1000:
		return fmt.Errorf("--streams %d: want a number from 1 to 1000", o.streams)
	case o.resume != "on" && o.resume != "off":
		return fmt.Errorf("--tls-resume %s: want on or off", o.resume)
	case o.passFile != "" && o.passEnv != "":
		return errors.New("want one of --pass-file and --pass-env")
	case (o.passFile != "" || o.passEnv != "") && o.files.PKCS12 == "":
		return errors.New("--pass-file and --pass-env are for --pkcs12")
	case o.urls != "" && o.method != "":
		return errors.New("--urls names the method of each: leave --method out")
	}
	for _, status := range o.wanted {
		if status < 400 || status > 599 {
			return fmt.Errorf("--ok-status %d: want statuses from 400 to 599: those below are no errors anyway", status)
		}
	}
	return o.files.Check()
}

// plan is the load that the options ask for. What is wrong is an error of usage, but for a
// target that is not allowed.
func (o loadHTTPOptions) plan(ctx context.Context, urls []string, resolver target.Resolver) (*load.Plan, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &load.Plan{For: o.length, WarmUp: o.warmUp, Connections: o.maxConnections, HTTP2: o.http2, Streams: o.streams, Close: o.close, Timeout: o.timeout, Resume: o.resume == "on", Wanted: o.wanted}
	var err error
	switch {
	case o.rate != "":
		var stage rate.Stage
		stage, err = rate.ParseRate(o.rate, o.length)
		p.Stages = []rate.Stage{stage}
		err = ofOption("--rate", err)
	case o.steps != "":
		p.Stages, err = rate.ParseSteps(o.steps, o.length)
		err = ofOption("--steps", err)
	default:
		p.Connections = o.connections
	}
	if err != nil {
		return nil, err
	}
	if p.Length() > maxRun {
		return nil, fmt.Errorf("all steps take %v: want at most %v", p.Length(), maxRun)
	}
	for _, text := range o.expect {
		g, err := threshold.Parse(text)
		if err != nil {
			return nil, ofOption("--expect", err)
		}
		p.Gates = append(p.Gates, g)
	}
	list, common, err := o.requests(urls)
	if err != nil {
		return nil, err
	}
	if p.TLS, err = identity.Load(o.files, readCapped, o.passphrase); err != nil {
		return nil, err
	}
	allowed, err := target.ParseAllowed(ctx, o.allow, resolver)
	if err != nil {
		return nil, ofOption("--allow", err)
	}
	if p.Set, err = target.Make(ctx, list, common, allowed, resolver); err != nil {
		return nil, err
	}
	secured := slices.ContainsFunc(p.Set.Origins, func(o target.Origin) bool { return o.TLS })
	if !secured && (o.files != identity.Files{} || o.given("tls-resume")) {
		return nil, errors.New("certificates and --tls-resume are for https://, and no URL is of that kind")
	}
	return p, nil
}

func ofOption(option string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// requests is the list of what is to be asked, and what all of it has in common.
func (o loadHTTPOptions) requests(urls []string) (list []target.Asked, common target.Common, err error) {
	common = target.Common{Close: o.close, ConnectTo: o.connectTo}
	for _, word := range o.headers {
		text := []byte(word)
		where := "--header"
		if file, is := strings.CutPrefix(word, "@"); is {
			if text, err = readCapped(file); err != nil {
				return nil, common, ofOption("--header", err)
			}
			where = file
		}
		fields, err := fieldsOf(where, text)
		if err != nil {
			return nil, common, err
		}
		common.Header = append(common.Header, fields...)
	}
	if file, is := strings.CutPrefix(o.body, "@"); is {
		if common.Body, err = readCapped(file); err != nil {
			return nil, common, ofOption("--body", err)
		}
	} else if o.body != "" {
		common.Body = []byte(o.body)
	}
	switch {
	case o.urls != "" && len(urls) > 0:
		return nil, common, errors.New("--urls names the URLs: leave the others out")
	case o.urls != "":
		text, err := readCapped(o.urls)
		if err != nil {
			return nil, common, ofOption("--urls", err)
		}
		list, err = target.ReadList(o.urls, bytes.NewReader(text))
		return list, common, err
	case len(urls) == 0:
		return nil, common, errors.New("want a URL, as in: fettle load http --rate 100/s http://localhost:8080/")
	}
	method := o.method
	if method == "" {
		method = "GET"
		if len(common.Body) > 0 {
			method = "POST"
		}
	}
	for _, u := range urls {
		list = append(list, target.Asked{Weight: 1, Method: method, URL: u})
	}
	return list, common, nil
}

// fieldsOf reads lines of a header. What is wrong is told without them: they may be
// secret.
func fieldsOf(where string, text []byte) (out []exchange.Field, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		f, err := target.ParseField(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", where, n, err)
		}
		out = append(out, f)
	}
	return out, ofOption(where, lines.Err())
}

// passphrase is that of PKCS#12: from a file or the environment, because a command line is
// seen by all.
func (o loadHTTPOptions) passphrase() (string, error) {
	switch {
	case o.passFile != "":
		text, err := readCapped(o.passFile)
		if err != nil {
			return "", ofOption("--pass-file", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	case o.passEnv != "":
		secret, set := os.LookupEnv(o.passEnv)
		if !set {
			return "", fmt.Errorf("--pass-env: the environment has no %s", o.passEnv)
		}
		return secret, nil
	}
	return "", nil
}

// readCapped reads a file that an option names.
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
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d MiB", maxFile>>20)}
	}
	return text, nil
}

// withoutSecrets is the command line for the record: headers and bodies may hold what is
// nobody else's business, and a URL the same in its query.
func (o loadHTTPOptions) withoutSecrets(urls []string) string {
	words := []string{"fettle", "load", "http"}
	add := func(flag, value string) {
		if o.given(flag) {
			words = append(words, "--"+flag, value)
		}
	}
	add("rate", o.rate)
	add("steps", o.steps)
	add("connections", fmt.Sprint(o.connections))
	add("for", o.length.String())
	add("warm-up", o.warmUp.String())
	add("max-connections", fmt.Sprint(o.maxConnections))
	add("timeout", o.timeout.String())
	add("method", o.method)
	for _, h := range o.headers {
		if !strings.HasPrefix(h, "@") {
			name, _, _ := strings.Cut(h, ":")
			h = strings.TrimSpace(name) + ": ***"
		}
		words = append(words, "--header", h)
	}
	body := o.body
	if !strings.HasPrefix(body, "@") {
		body = "***"
	}
	add("body", body)
	add("urls", o.urls)
	for _, flag := range []string{"close", "http2"} {
		if o.given(flag) {
			words = append(words, "--"+flag)
		}
	}
	add("streams", fmt.Sprint(o.streams))
	add("ok-status", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.wanted), " ", ","), "[]"))
	for _, w := range o.allow {
		words = append(words, "--allow", w)
	}
	add("connect-to", o.connectTo)
	for _, w := range o.expect {
		words = append(words, "--expect", w)
	}
	add("cert", o.files.Cert)
	add("key", o.files.Key)
	add("cacert", o.files.CA)
	add("pkcs12", o.files.PKCS12)
	add("pass-file", o.passFile)
	add("pass-env", o.passEnv)
	add("puppet-ssldir", o.files.PuppetSSLDir)
	add("certname", o.files.CertName)
	add("tls-resume", o.resume)
	return string(host.Redact("", []byte(rule.CommandLine(append(words, urls...)))))
}

// says is what will be done.
func (o loadHTTPOptions) says(p *load.Plan) string {
	what := fmt.Sprintf("%d connections", p.Connections)
	switch {
	case o.rate != "":
		what = o.rate
	case o.steps != "":
		what = fmt.Sprintf("%s, each", o.steps)
	}
	text := fmt.Sprintf("%s for %v", what, o.length)
	if o.warmUp > 0 {
		text += fmt.Sprintf(" after %v of warm-up", o.warmUp)
	}
	return text
}

// enoughFiles looks whether this process may open as many connections.
func enoughFiles(p *load.Plan) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	const own = 64 // of the program itself
	each := uint64(len(p.Set.Origins))
	if need := uint64(p.Connections)*each + own; need > limit.Cur {
		return ui.Hinted(ui.Refused, fmt.Errorf("%d connections to %d servers want %d open files, and this process may have %d", p.Connections, each, need, limit.Cur),
			fmt.Sprintf("raise the limit (ulimit -n %d), or take fewer connections", need))
	}
	return nil
}
