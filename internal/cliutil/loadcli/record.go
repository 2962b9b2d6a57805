package loadcli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// RecordedCommand returns the command line of a load for the record. It omits passwords and
// the contents of headers and bodies.
func RecordedCommand(c *cobra.Command, args []string) string {
	words := strings.Fields(c.CommandPath())
	c.LocalNonPersistentFlags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.NoOptDefVal != "" && v == f.NoOptDefVal:
				words = append(words, "--"+f.Name)
				continue
			case f.Name == "header" && !strings.HasPrefix(v, "@"):
				name, _, _ := strings.Cut(v, ":")
				v = strings.TrimSpace(name) + ": ***"
			case f.Name == "body" && !strings.HasPrefix(v, "@"):
				v = "***"
			}
			words = append(words, "--"+f.Name, v)
		}
	})
	return string(host.Redact("", []byte(internaltext.CommandLine(append(words, args...)))))
}

// Title describes the load and when it will end.
func (o *Options) Title(p *load.Plan) string {
	until := func(d time.Duration) string { return ", until " + time.Now().Add(d).Local().Format("15:04:05") }
	what := internaltext.Count(p.Connections, "connection")
	switch {
	case p.Each > 0:
		return fmt.Sprintf("%s, %s on each; at most %v", what, internaltext.Count(p.Each, "request"), o.Length) + until(p.Length())
	case o.FindKnee:
		in := o.Range(p)
		stage, before := p.StageLength(in.Lowest, in.Each)
		text := fmt.Sprintf("searching from %s upward, in about 20 stages of %v", engine.Stage{From: in.Lowest, To: in.Lowest}, stage+before)
		if o.WarmUp > 0 {
			text += fmt.Sprintf(", after %v of warm-up", o.WarmUp)
		}
		return text
	case p.Replay != nil:
		return fmt.Sprintf("%s of %s, %s", internaltext.Count(p.Replay.Count(), "request"), p.Replay, p.Replay.Told().Left()) + until(p.Length())
	case o.Rate != "":
		what = o.Rate
	case o.Steps != "":
		what = fmt.Sprintf("%s, each", o.Steps)
	}
	text := fmt.Sprintf("%s for %v", what, o.Length)
	if o.WarmUp > 0 {
		text += fmt.Sprintf(" after %v of warm-up", o.WarmUp)
	}
	return text + until(p.Length())
}
