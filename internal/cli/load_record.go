package cli

import (
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

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
	o.identityWords(add)
	add("tls-resume", o.resume)
	if o.findKnee {
		words = append(words, "--find-knee")
	}
	for _, list := range []struct {
		flag   string
		values []string
	}{{"observe", o.observe}, {"clients", o.clients}, {"client-command", o.clientCommands}, {"replay", o.replay.logs}, {"replay-method", o.replay.methods}} {
		for _, w := range list.values {
			words = append(words, "--"+list.flag, w)
		}
	}
	add("speed", fmt.Sprint(o.replay.speed))
	add("replay-format", o.replay.format)
	return string(host.Redact("", []byte(internaltext.CommandLine(append(words, urls...)))))
}

// says is what will be done, and until when.
func (o loadHTTPOptions) says(p *load.Plan) string {
	until := func(d time.Duration) string { return ", until " + time.Now().Add(d).Local().Format("15:04:05") }
	what := fmt.Sprintf("%d connections", p.Connections)
	switch {
	case p.Each > 0:
		return fmt.Sprintf("%s, %d requests of each; at most %v", what, p.Each, o.length) + until(p.Length())
	case o.findKnee:
		in := o.kneeRange(p)
		stage, before := p.StageLength(in.Lowest, in.Each)
		text := fmt.Sprintf("searching from %s on; a stage takes %v, and there are about 20", engine.Stage{From: in.Lowest, To: in.Lowest}, stage+before)
		if o.warmUp > 0 {
			text += fmt.Sprintf("; before, %v of warm-up", o.warmUp)
		}
		return text
	case p.Replay != nil:
		return fmt.Sprintf("%d requests of %s, %s", p.Replay.Count(), p.Replay, p.Replay.Told().Left()) + until(p.Length())
	case o.rate != "":
		what = o.rate
	case o.steps != "":
		what = fmt.Sprintf("%s, each", o.steps)
	}
	text := fmt.Sprintf("%s for %v", what, o.length)
	if o.warmUp > 0 {
		text += fmt.Sprintf(" after %v of warm-up", o.warmUp)
	}
	return text + until(p.Length())
}
