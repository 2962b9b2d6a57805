package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// textfile is the option --textfile of a verb: a file for node_exporter's textfile collector.
type textfile struct {
	name string
	// metrics writes the result. It is nil until the verb has a result.
	metrics func(io.Writer) error
}

// flag adds --textfile to a command.
func (t *textfile) flag(c *cobra.Command) {
	c.Flags().StringVar(&t.name, "textfile", "", "also write metrics for the textfile collector of node_exporter to `FILE`, atomically; its name must end in .prom")
	cliutil.Reads(c.Flags(), "textfile", "fettle.prom", func(name string) error {
		if !strings.HasSuffix(name, ".prom") {
			return errors.New("node_exporter reads only files that end in .prom")
		}
		if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
			return fmt.Errorf("want a regular file or a new name, not %s", host.DescribeType(st.Mode()))
		}
		return nil
	})
}

// run runs a verb and writes the file, also if the verb failed: the metrics of the last success
// would otherwise stay. A verb that is interrupted writes nothing.
func (t *textfile) run(ctx context.Context, verb string, do func() error) error {
	if t.name == "" {
		return do()
	}
	if err := cliutil.Writable("--textfile", t.name); err != nil {
		return err
	}
	err := do()
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, t.write(verb, ui.Code(err) != ui.Failed))
}

// write writes the file. determined is false if the verb failed, or could not determine anything.
func (t *textfile) write(verb string, determined bool) error {
	var text bytes.Buffer
	name := "fettle_" + verb + "_success"
	success := 0
	if t.metrics != nil && determined {
		success = 1
	}
	fmt.Fprintf(&text, "# HELP %s 1 if the last fettle %s had a result.\n# TYPE %s gauge\n%s %d\n", name, verb, name, name, success)
	if t.metrics != nil {
		if err := t.metrics(&text); err != nil {
			return err
		}
	}
	if err := host.WriteFile(t.name, bytes.TrimSuffix(text.Bytes(), []byte("# EOF\n")), 0o644); err != nil {
		return ui.Exit(ui.Failed, fmt.Errorf("--textfile: %w", err))
	}
	return nil
}
